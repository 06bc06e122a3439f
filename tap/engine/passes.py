"""Long passes over images, as those of probes and controls, that a killed job goes on with where it was.

A pass looks at every image once and gives arrays whose rows are the images (or parts of them), in the order of the data
set. What a batch gives depends on its images alone, so that a pass that goes on at a later batch ends with the same
bits. What has been found is kept from time to time, and when the job is asked to end (a time limit).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import Subset

from tap.config.schema import JobSpec
from tap.engine.resume import ResumeStates
from tap.engine.stopping import Stopped, StopRequest, stop_requests
from tap.provenance.files import sha256_file
from tap.provenance.record import identity_of_data
from tap.tasks.base import Batch, Task

KEEP_SECONDS: Final = 300.0
"""How much work a killed job may lose. A state holds all that was found, up to a gigabyte at the paper's scale."""

Rows = dict[str, np.ndarray]
"""Arrays by name, whose first axes grow with the images."""


class Passes:
    """The passes of one job, each under a name of its own.

    Args:
        states: where what was found is kept; None keeps nothing.
        name: what to call the job in messages.
    """

    def __init__(self, states: ResumeStates | None = None, name: str = "") -> None:
        self._states, self._name = states, name
        self._found: dict[str, tuple[int, Rows]] = {}
        self._kept = time.monotonic()
        known = None if states is None else states.load()
        for of, (batches, arrays) in ({} if known is None else known).items():
            self._found[of] = batches, {array: tensor.numpy() for array, tensor in arrays.items()}
        if known is not None:
            self._say(f"goes on after {self._batches} batches")

    def over(self, name: str, task: Task, spec: JobSpec, dataset: Any, work: Callable[[Batch], Rows]) -> Rows:
        """What `work` gives of all batches of a data set, one after the other; of earlier processes' as they kept it.

        Args:
            name: of the pass.
            task: makes the batches.
            spec: the job.
            dataset: evaluation images.
            work: from a batch to arrays; the same names for every batch.

        Raises:
            Stopped: the job was asked to end; what was found is kept.
        """
        done, rows = self._found.get(name, (0, {}))
        parts = [rows] if done else []
        rest = Subset(dataset, range(min(done * spec.eval.batch_size, len(dataset)), len(dataset))) if done else dataset
        with nullcontext(StopRequest()) if self._states is None else stop_requests() as request:
            for batch in task.loader(rest, spec) if not done or len(rest) else ():
                parts.append(work(batch))
                done += 1
                late = time.monotonic() - self._kept >= KEEP_SECONDS
                if self._states is not None and (late or request.made):
                    parts = [_joined(parts)]
                    self._found[name] = done, parts[0]
                    self._keep()
                    self._say(
                        f"{name}: {min(done * spec.eval.batch_size, len(dataset))} of {len(dataset)} images; kept"
                    )
                if request.made:
                    raise Stopped(
                        f"{self._name}: asked to end (SIGTERM) after {self._batches} batches; what they gave is kept, "
                        "and the same command goes on from there"
                    )
        found = _joined(parts)
        if self._states is not None:
            self._found[name] = done, found
        return found

    @property
    def _batches(self) -> int:
        return sum(batches for batches, _ in self._found.values())

    def _keep(self) -> None:
        assert self._states is not None
        content = {
            name: (batches, {array: torch.from_numpy(values) for array, values in rows.items()})
            for name, (batches, rows) in self._found.items()
        }
        self._states.save(self._batches, content)
        self._kept = time.monotonic()

    def _say(self, text: str) -> None:
        print(f"{self._name}: {text}", file=sys.stderr, flush=True)


ALONE: Final = Passes()
"""Keeps nothing: for passes of minutes."""


@contextmanager
def kept_passes(
    folder: Path,
    name: str,
    settings: Mapping[str, Any],
    code: str,
    inputs: Iterable[Path],
    spec: JobSpec,
    device: str,
) -> Iterator[Passes]:
    """Passes whose findings are kept until the context ends, that is until the job has written its files.

    Args:
        folder: where they are kept, outside of what a rerun deletes.
        name: what to call the job in messages.
        settings: all that the job reads of the settings.
        code: fingerprint of the code behind it.
        inputs: files that it reads beside the data.
        spec: whose data it looks at.
        device: what it computes on, in words; findings of two kinds of cards are not mixed.
    """
    identity = {
        "settings": settings,
        "code": code,
        "data": identity_of_data(spec),
        "inputs": {str(path): sha256_file(path) for path in inputs},
        "device": device,
    }
    states = ResumeStates(folder, identity, lambda text: print(f"{name}: {text}", file=sys.stderr, flush=True))
    with states.held():
        yield Passes(states, name)
        states.finish()


def rows_of(name: str, rows: Rows) -> Rows:
    """Those of some arrays whose names begin with a name and a slash, by what follows."""
    return {key.removeprefix(f"{name}/"): values for key, values in rows.items() if key.startswith(f"{name}/")}


def _joined(parts: list[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
