"""What the workflow would use today for the job of a record: its code and its settings.

A result whose record says otherwise is stale, not forged: the code or the settings have moved on since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tap.config.jobs import Job, endpoint_specs, job_spec, probe_parameters, runs_of_table, settings_of
from tap.config.schema import ScaleConfig
from tap.errors import UserError
from tap.provenance import behind
from tap.provenance.fingerprint import hash_of, version
from tap.provenance.record import without_places
from tap.runs import Run

OTHER_CODE: Final = "other code"
"""How the reason begins where the code has changed."""

Content = Mapping[str, Any]
Settings = Callable[[Content, ScaleConfig], tuple[Any, Any]]
Code = Callable[[Content, "Today"], str]


class Today:
    """The workflow as its code and settings are now. Each piece of code is looked at once.

    Args:
        cfg: the settings in use.
    """

    def __init__(self, cfg: ScaleConfig) -> None:
        self.cfg = cfg
        self._codes: dict[tuple[Any, ...], str] = {}

    def code(self, of: Callable[..., str], *arguments: str) -> str:
        """A fingerprint of `tap.provenance.behind`."""
        key = (of.__name__, *arguments)
        if key not in self._codes:
            self._codes[key] = of(*arguments)
        return self._codes[key]

    def code_of(self, content: Content) -> str:
        """Fingerprint of today's code behind the job of a record.

        Raises:
            UserError, KeyError, TypeError, ValueError: as `staleness` says in words.
        """
        return _JOBS[content["job"]][1](content, self)

    def has_other_code(self, content: Content) -> bool:
        """Whether a job's code, and maybe more, is another one today."""
        reason = self.staleness(content)
        return reason is not None and reason.startswith(OTHER_CODE)

    def staleness(self, content: Content) -> str | None:
        """Why a job's result is not what the workflow would make today; None if it is.

        Args:
            content: the parts of the job's record.
        """
        if not content.get("job"):
            return "its record is of an earlier form"
        if content["job"] not in _JOBS:
            return f"the workflow has no job of the kind '{content['job']}'"
        settings, _ = _JOBS[content["job"]]
        try:
            before, now = settings(content, self.cfg)
            fingerprint = self.code_of(content)
        except UserError as error:
            return f"the settings do not have it any more ({error})"
        except (KeyError, TypeError, ValueError) as error:
            return f"its record cannot be understood ({error!r})"
        changed = _first_difference(before, now)
        if changed is not None:
            return f"other settings: {changed}"
        if content.get("fingerprint") != hash_of(fingerprint):
            libraries = {name: text for name, text in content.get("versions", {}).items() if name != "python"}
            newer = [f"{name} {text} -> {version(name)}" for name, text in libraries.items() if text != version(name)]
            return f"{OTHER_CODE}{' or libraries: ' + ', '.join(newer) if newer else ''}"
        return None


def _of_run(job: Job) -> Settings:
    """Settings of a job on one run: as recorded, and as they are now."""

    def settings(content: Content, cfg: ScaleConfig) -> tuple[Any, Any]:
        spec = job_spec(cfg, _run(content, cfg)).model_dump(mode="json")
        return settings_of(content["spec"], job), without_places(settings_of(spec, job))

    return settings


def _run(content: Content, cfg: ScaleConfig) -> Run:
    scale, _, name = content["run"].partition("/")
    return Run.parse(scale, name)


def _parameters(now: Callable[[Content, ScaleConfig], Any]) -> Settings:
    """Parameters of a job that concerns no single run: as recorded, and as they are now."""
    return lambda content, cfg: (content["parameters"], without_places(now(content["parameters"], cfg)))


def _endpoint(parameters: Content, cfg: ScaleConfig) -> Any:
    specs = [spec.model_dump(mode="json") for spec in endpoint_specs(cfg, parameters["task"])]
    return {"task": parameters["task"], "specs": [settings_of(spec, "evaluate") for spec in specs]}


def _gather(parameters: Content, cfg: ScaleConfig) -> Any:
    task = parameters["task"]
    return {"task": task, "runs": sorted(run.id for run in runs_of_table(cfg, task))}


def _table(parameters: Content, cfg: ScaleConfig) -> Any:
    """Tables that are a function of the settings carry all of them."""
    whole = {"settings": cfg.model_dump(mode="json")} if "settings" in parameters else {}
    return {**parameters, "main_rate": cfg.main_rate, **whole}


def _probe(parameters: Content, cfg: ScaleConfig) -> Any:
    return probe_parameters(cfg, parameters["task"], parameters["kind"])


def _check(parameters: Content, cfg: ScaleConfig) -> Any:
    """The data of the task that the record is about: the one with the same dataset."""
    name = parameters["data"]["name"]
    dumps = [task.data.model_dump(mode="json", exclude={"workers"}) for task in cfg.tasks.values()]
    found = [dump for dump in dumps if dump["name"] == name]
    return {"data": found[0] if found else None}


def _code_of_endpoint(content: Content, today: Today) -> str:
    task = content["parameters"]["task"]
    methods = sorted({spec.method for spec in endpoint_specs(today.cfg, task)})
    return today.code(lambda *_: behind.code_of_endpoint(task, methods), task)


def _by_run(code: Callable[[str, str], str]) -> Code:
    return lambda content, today: today.code(code, (run := _run(content, today.cfg)).task, run.method)


def _by_data(name: Callable[[Content], str]) -> Code:
    return lambda content, today: today.code(behind.code_of_data, name(content["parameters"]))


def _same(parameters: Content, cfg: ScaleConfig) -> Any:
    """No setting decides anything."""
    return parameters


_JOBS: Final[dict[str, tuple[Settings, Code]]] = {
    "prepare": (_parameters(_same), _by_data(lambda parameters: str(parameters["data"]))),
    "check": (_parameters(_check), _by_data(lambda parameters: str(parameters["data"]["name"]))),
    "train": (_of_run("train"), _by_run(behind.code_of_training)),
    "evaluate": (_of_run("evaluate"), _by_run(behind.code_of_evaluation)),
    "picture": (_of_run("evaluate"), _by_run(behind.code_of_picture)),
    "endpoint": (_parameters(_endpoint), _code_of_endpoint),
    "probe": (
        _parameters(_probe),
        lambda content, today: today.code(behind.code_of_probe, content["parameters"]["task"]),
    ),
    "gather_probes": (_parameters(_same), lambda content, today: today.code(behind.code_of_gathering_probes)),
    "gather": (_parameters(_gather), lambda content, today: today.code(behind.code_of_gathering)),
    "verify": (_parameters(_same), lambda content, today: ""),
    "table": (
        _parameters(_table),
        lambda content, today: today.code(behind.code_of_tables),
    ),
    "headline": (
        _parameters(lambda parameters, cfg: {"tasks": [task for task in cfg.tasks if behind.is_built(task)]}),
        lambda content, today: today.code(behind.code_of_headline),
    ),
    "figure": (_parameters(_same), lambda content, today: today.code(behind.code_of_figures)),
    "audit": (
        _parameters(lambda parameters, cfg: {"main_rate": cfg.main_rate}),
        lambda content, today: today.code(behind.code_of_audit),
    ),
    "equivalence": (_parameters(_same), lambda content, today: ""),
    "publish": (_parameters(_same), lambda content, today: ""),
}
"""By kind of job: its settings (as recorded, and now), and its code now. A new kind of job is one more entry."""


def _first_difference(before: Any, now: Any, name: str = "") -> str | None:
    """The first value that differs, by its dotted name."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted(before.keys() | now.keys()):
            found = _first_difference(before.get(key), now.get(key), f"{name}.{key}" if name else str(key))
            if found is not None:
                return found
        return None
    return None if before == now else f"{name} was {_short(before)}, is {_short(now)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
