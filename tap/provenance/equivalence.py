"""Equivalences: results of other code that a replay has shown to be those of today's.

An equivalence is a record of its own beside the record of the job, `<name>.equivalence.json`, and is sealed as records
are. It names that record by hash, and both pieces of code by commit and fingerprint. While it fits, the job's result
counts as made by the code that it names; the job's own record says what it always did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tap.provenance.files import sha256_file
from tap.provenance.fingerprint import hash_of
from tap.provenance.record import equivalence_path, is_sealed

REPLAYED: Final = ("train", "train_joint", "evaluate", "probe")
"""Kinds of job that a replay can show. The others are made again in less time than a replay would take."""
EQUIVALENCE: Final = "equivalence"
"""Kind of job, as the record of a replay names it."""


@dataclass(frozen=True)
class Equivalence:
    """What a replay has shown of a job.

    Attributes:
        before: hash of the code that made the result.
        now: hash of the code that was shown to do the same.
        commit: where `before` is in the history.
        shown: what was compared, in words.
        when: end of the replay, as ISO 8601.
        machine: where it ran.
    """

    before: str
    now: str
    commit: str
    shown: str
    when: str
    machine: str

    def __str__(self) -> str:
        return f"made by commit {self.commit[:10]}; {self.shown} replayed to the same bits on {self.when[:10]}"


def read_equivalence(record: Path) -> Equivalence | None:
    """The equivalence of a record; None where there is none, or it is damaged or of another state of the record."""
    path = equivalence_path(record)
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
        known = content["parameters"]
        facts = [facts for name, facts in content["inputs"].items() if Path(name).name == record.name]
        if not is_sealed(text, content) or content["job"] != EQUIVALENCE or facts[0]["sha256"] != sha256_file(record):
            return None
        return Equivalence(
            known["before"], known["now"], known["commit"], known["shown"], content["ended"], content["device"]
        )
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None


def holds(record: Path, content: Mapping[str, Any], code: str) -> Equivalence | None:
    """The equivalence by which a record's result counts as made by some code; None if there is none.

    Args:
        record: the file.
        content: its parts.
        code: fingerprint of the code.
    """
    found = read_equivalence(record)
    if found is None or found.before != content.get("fingerprint") or found.now != hash_of(code):
        return None
    return found


def code_as_recorded(record: Path, code: str) -> str:
    """The fingerprint that the workflow carries for a job: that of its result's record, where the code does the same.

    Args:
        record: the job's record, there or not.
        code: fingerprint of today's code, with versions.
    """
    if not equivalence_path(record).is_file() or not record.is_file():
        return code
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
    except ValueError:
        return code
    if holds(record, content, code) is None:
        return code
    return " ".join([str(content["fingerprint"]), *code.split()[1:]])
