"""How fast planned jobs run, stated or measured, and what finished ones took (docs/plan.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tap.config.methods import DENSE
from tap.errors import UserError
from tap.plan.accelerators import ACCELERATORS, UTILISATION
from tap.plan.estimate import PlannedJob


@dataclass(frozen=True)
class Rates:
    """Operations per second of a card (or of a CPU job), by kind of job and task, with the interval's factors.

    Attributes:
        speeds: by kind (`train` and `evaluate`, which stands for all others) and task.
        low, high: factors on the hours, by task.
        source: where they come from, in words.
        watts: power of a card; None where it is not known.
        memory: bytes of a card; None on a CPU.
    """

    speeds: Mapping[tuple[str, str], float]
    low: Mapping[str, float]
    high: Mapping[str, float]
    source: str
    watts: float | None = None
    memory: float | None = None

    def seconds(self, job: PlannedJob) -> float:
        """How long a job takes on one card.

        Raises:
            UserError: no rate is known of its task.
        """
        return sum(work / self._speed(job.kind, task) for task, work in job.work.items())

    def interval(self, job: PlannedJob) -> tuple[float, float]:
        """Seconds at least and at most."""
        parts = [(work / self._speed(job.kind, task), task) for task, work in job.work.items()]
        low = sum(seconds * self.low[task] for seconds, task in parts)
        return low, sum(seconds * self.high[task] for seconds, task in parts)

    def knows(self, job: PlannedJob) -> bool:
        """Whether there is a rate for each of a job's tasks."""
        return all((_rate_of(job.kind), task) in self.speeds for task in job.work)

    def _speed(self, kind: str, task: str) -> float:
        try:
            return self.speeds[_rate_of(kind), task]
        except KeyError:
            raise UserError(f"plan: no finished {kind} job of {task} without pruning says how fast it runs") from None


def _rate_of(kind: str) -> str:
    """Whose rate stands for a kind of job."""
    return "train" if kind == "train" else "evaluate"


def card_rates(name: str) -> Rates:
    """Rates on a card by its name.

    Raises:
        UserError: the card is not known.
    """
    if name not in ACCELERATORS:
        raise UserError(f"--gpu: '{name}' is not known; choose from {', '.join(ACCELERATORS)} or measured")
    card, h100 = ACCELERATORS[name], ACCELERATORS["h100"]
    speeds = {
        (kind, task): found.share * h100.peak * card.speed
        for task, found in UTILISATION.items()
        for kind in ("train", "evaluate")
    }
    low = {task: found.low for task, found in UTILISATION.items()}
    high = {task: found.high for task, found in UTILISATION.items()}
    return Rates(speeds, low, high, f"{name}, by stated utilisation (docs/plan.md)", card.watts, card.memory)


def measured_rates(jobs: Iterable[PlannedJob], used: Mapping[tuple[str, str], float], source: str) -> Rates:
    """Rates from finished jobs without pruning of the same task.

    Args:
        jobs: what was planned.
        used: seconds of finished jobs by kind and run id.
        source: where these were read.
    """
    work: dict[tuple[str, str], float] = {}
    seconds: dict[tuple[str, str], float] = {}
    for job in jobs:
        took = used.get((job.kind, job.name))
        if took is not None and job.method == DENSE and len(job.work) == 1:
            key = (job.kind, job.task)
            work[key] = work.get(key, 0.0) + sum(job.work.values())
            seconds[key] = seconds.get(key, 0.0) + took
    speeds = {key: work[key] / seconds[key] for key in work}
    tasks = {task for _, task in speeds}
    return Rates(speeds, dict.fromkeys(tasks, 1 / 1.5), dict.fromkeys(tasks, 1.5), f"jobs without pruning in {source}")


def used_seconds(jobs: Iterable[PlannedJob], scale: str, folder: Path) -> dict[tuple[str, str], float]:
    """Seconds of finished jobs, from their records, by kind and name; a job of other settings is another one.

    Args:
        jobs: which to look for.
        scale: their scale.
        folder: `results` or `published`.
    """
    found = {}
    for job in jobs:
        path = folder / scale / job.record
        record = json.loads(path.read_text()) if path.is_file() else {}
        parameters = record.get("parameters", {})
        said = record | parameters | {"models": len(parameters.get("specs", ()))}
        if "wall_seconds" in record and all(said.get(name, value) == value for name, value in job.settings.items()):
            found[job.kind, job.name] = float(record["wall_seconds"])
    return found
