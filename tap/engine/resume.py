"""Where a killed training goes on: whole states of the past, each checked against the hash in its name.

A state belongs to an *identity*: everything that decides the weights (settings, code, data, inputs, number of
processes). States of another identity are never mixed in; they stay where they are until a training of the folder
completes, and the difference is reported. A damaged state is set aside by name and the one before it is used, so that
the same command always goes on.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tap.provenance.files import atomic_write, sha256_file
from tap.provenance.locks import waiting_lock

_KEPT = 2
_NAME = re.compile(r"(?P<identity>[0-9a-f]{12})-step-(?P<step>\d{9})-(?P<digest>[0-9a-f]{64})\.state")


class ResumeStates:
    """The states of one run's training in one folder.

    Args:
        folder: the run's scratch folder.
        identity: what decides the weights, as JSON values. States are used only if all of it is equal.
        report: takes a line about what was found.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], report: Callable[[str], None]) -> None:
        self.folder = folder
        self._identity = _flat(identity)
        self._key = hashlib.sha256(json.dumps(self._identity, sort_keys=True).encode()).hexdigest()[:12]
        self._report = report

    def save(self, step: int, content: dict[str, Any]) -> None:
        """Keeps a state and forgets all but the one before it.

        Args:
            step: steps done so far.
            content: tensors, numbers, strings and containers of them.
        """
        buffer = io.BytesIO()
        torch.save({"identity": self._identity, "content": content}, buffer)
        digest = hashlib.sha256(buffer.getbuffer()).hexdigest()
        path = self.folder / f"{self._key}-step-{step:09d}-{digest}.state"
        atomic_write(path, lambda temporary: temporary.write_bytes(buffer.getbuffer()))
        for old in [other for other in self._own() if other != path][_KEPT - 1 :]:
            old.unlink()

    def load(self) -> dict[str, Any] | None:
        """The content of the newest good state, on the CPU, or None where there is none."""
        for path in self._own():
            if sha256_file(path) == _NAME.fullmatch(path.name)["digest"]:
                return torch.load(path, map_location="cpu", weights_only=True)["content"]
            aside = path.with_suffix(".damaged")
            path.rename(aside)
            self._report(
                f"{aside}: this resume state is cut off or was edited; set aside, going on from the one before"
            )
        self._report_foreign()
        return None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Makes the folder, keeps other processes out of it, and removes what a killed writer left half done.

        A workflow that was killed may have left its job behind, and that job then trains on: wait until it is through.
        The lock is the operating system's and goes with the process, however that ends.

        Raises:
            UserError: the folder cannot be written.
        """
        atomic_write(self.folder / "identity.json", json.dumps(self._identity, indent=1, sort_keys=True) + "\n")
        waiting = "another process is training this run; waiting for its end"
        with waiting_lock(self.folder / "lock", lambda: self._report(waiting)):
            for torn in self.folder.glob(".*.tmp*"):
                torn.unlink()
            yield

    @property
    def finished(self) -> bool:
        """Whether a training of this identity has come to its end and published."""
        mark = self.folder / "finished"
        return mark.is_file() and mark.read_text() == self._key

    def finish(self) -> None:
        """Notes the end and removes all states, once the results that came of them are in place."""
        atomic_write(self.folder / "finished", self._key)
        for path in [*self.folder.glob("*.state"), *self.folder.glob("*.damaged")]:
            path.unlink()

    def _own(self) -> list[Path]:
        """This identity's states, newest first."""
        found = [path for path in self.folder.glob("*.state") if _NAME.fullmatch(path.name)]
        return sorted((path for path in found if path.name.startswith(self._key)), reverse=True)

    def _report_foreign(self) -> None:
        for path in sorted(self.folder.glob("*.state")):
            match = _NAME.fullmatch(path.name)
            if match is None:
                self._report(f"{path}: not a resume state of this project; ignored")
            elif match["identity"] != self._key and sha256_file(path) == match["digest"]:
                other = torch.load(path, map_location="cpu", weights_only=True, mmap=True)["identity"]
                changed = sorted(
                    key for key in other.keys() | self._identity if other.get(key) != self._identity.get(key)
                )
                self._report(
                    f"{path}: resume state of step {int(match['step'])} with other settings, code, data, inputs or "
                    f"number of processes ({_changes(changed, other, self._identity)}); not used, the training starts "
                    "at step 0"
                )


def _changes(changed: list[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    texts = [f"{key}: {str(before.get(key))[:20]} -> {str(now.get(key))[:20]}" for key in changed[:3]]
    return ", ".join(texts) + (f", and {len(changed) - 3} more" if len(changed) > 3 else "")


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted names."""
    if not isinstance(value, Mapping):
        return {prefix: json.loads(json.dumps(value))}
    parts = [_flat(part, f"{prefix}.{key}" if prefix else str(key)) for key, part in value.items()]
    return {key: part for flat in parts for key, part in flat.items()}
