"""Whether a record's result is what the workflow would make today, by the code and the settings of its job.

A result whose record says otherwise is stale, not forged: the code or the settings have moved on since.
"""

from __future__ import annotations

from typing import Any, Final

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.jobs.job import Content, Job, first_difference
from tap.jobs.registry import JOBS
from tap.provenance.equivalence import EQUIVALENCE
from tap.provenance.fingerprint import hash_of, version
from tap.provenance.record import without_places

OTHER_CODE: Final = "other code"
"""How the reason begins where the code has changed."""


class Today:
    """The workflow as its code and settings are now. Each piece of code is looked at once.

    Args:
        cfg: the settings in use.
    """

    def __init__(self, cfg: ScaleConfig) -> None:
        self.cfg = cfg
        self._codes: dict[tuple[str, tuple[str, ...]], str] = {}

    def staleness(self, content: Content) -> str | None:
        """Why a job's result is not what the workflow would make today; None if it is.

        Args:
            content: the parts of the job's record.
        """
        if not content.get("job"):
            return "its record is of an earlier form"
        if content["job"] == EQUIVALENCE:
            return None  # judged with the record that it is of
        job = JOBS.get(content["job"])
        if job is None:
            return f"the workflow has no job of the kind '{content['job']}'"
        try:
            key = job.key_of_record(self.cfg, content)
            changed = first_difference(job.recorded(content), without_places(job.settings(self.cfg, key)))
            fingerprint = self._code(job, key)
        except UserError as error:
            return f"the settings do not have it any more ({error})"
        except (KeyError, TypeError, ValueError) as error:
            return f"its record cannot be understood ({error!r})"
        if changed is not None:
            return f"other settings: {changed}"
        if content.get("fingerprint") != hash_of(fingerprint):
            libraries = {name: text for name, text in content.get("versions", {}).items() if name != "python"}
            newer = [f"{name} {text} -> {version(name)}" for name, text in libraries.items() if text != version(name)]
            return f"{OTHER_CODE}{' or libraries: ' + ', '.join(newer) if newer else ''}"
        return None

    def code_of(self, content: Content) -> str:
        """Fingerprint of today's code behind the job of a record that `staleness` understands."""
        job = JOBS[content["job"]]
        return self._code(job, job.key_of_record(self.cfg, content))

    def _code(self, job: Job[Any], key: Any) -> str:
        """Fingerprint of a job's code, which many jobs share."""
        known = job.name, tuple(job.roots(self.cfg, key))
        if known not in self._codes:
            self._codes[known] = job.code(self.cfg, key)
        return self._codes[known]
