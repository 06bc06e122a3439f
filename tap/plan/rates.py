"""How fast planned jobs run, stated or measured, and what finished ones took (docs/plan.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Final

from tap.config.methods import DENSE
from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.plan.accelerators import ACCELERATORS, UTILISATION
from tap.plan.estimate import PlannedJob
from tap.plan.flops import forward_flops
from tap.plan.profiles import profile_in_use
from tap.plan.runs import dense_run
from tap.plan.specs import job_spec

PROFILED: Final = (0.8, 2.5)
"""The interval's factors where a profile says how fast a card is: it times neither backward passes nor loading."""


@dataclass(frozen=True)
class Rates:
    """Operations per second of a card (or of a CPU job), by kind of job and task, with the interval's factors.

    Attributes:
        speeds: by kind (`train` and `evaluate`, which stands for all others) and task.
        low, high: factors on the hours, by task.
        source: where they come from, in words.
        card: whether they are a card's, and not a CPU job's.
        watts: power of the card; None where it is not known.
        memory: bytes of the card; None where they are not known.
    """

    speeds: Mapping[tuple[str, str], float]
    low: Mapping[str, float]
    high: Mapping[str, float]
    source: str
    card: bool = False
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
        raise UserError(f"--gpu: '{name}' is not known; choose from {', '.join(ACCELERATORS)}, profile or measured")
    card, h100 = ACCELERATORS[name], ACCELERATORS["h100"]
    speeds = {
        (kind, task): found.share * h100.peak * card.speed
        for task, found in UTILISATION.items()
        for kind in ("train", "evaluate")
    }
    low = {task: found.low for task, found in UTILISATION.items()}
    high = {task: found.high for task, found in UTILISATION.items()}
    return Rates(speeds, low, high, f"{name}, by stated utilisation (docs/plan.md)", True, card.watts, card.memory)


def profiled_rates(cfg: ScaleConfig, tasks: Iterable[str], on_gpu: bool, root: Path = Path(".")) -> Rates | None:
    """Rates from what a machine's profiles measured of models without pruning, forward and without loading.

    A step's passes are taken to be as fast as these.

    Args:
        cfg: the settings; its profiles are those of its own shapes.
        tasks: which rates are needed.
        on_gpu: whether a profile of a CPU says nothing here.
        root: the project's folder.

    Returns:
        None where a task has no profile with a full model.
    """
    speeds: dict[tuple[str, str], float] = {}
    devices: dict[str, float] = {}
    for task in tasks:
        path = profile_in_use(cfg, cfg.scale, task, root)
        if path is None or (on_gpu and not path.parts[-3].startswith("gpu-")):
            return None
        content = json.loads((root / path).read_text())
        full = [found["full"] for found in content["methods"].values() if found.get("full")]
        if not full:
            return None
        speed = content["batch"] / full[0]["reference"] * forward_flops(job_spec(cfg, dense_run(cfg, task, 0)))
        speeds |= {("train", task): speed, ("evaluate", task): speed}
        devices[path.parts[-3]] = float(content["about"]["driver"].get("power.limit", "nan").split()[0])
    watts = max(devices.values())
    source = f"profiles of {', '.join(devices)} (forward passes, without loading; docs/plan.md)"
    low, high = dict.fromkeys(tasks, PROFILED[0]), dict.fromkeys(tasks, PROFILED[1])
    return Rates(speeds, low, high, source, on_gpu, None if isnan(watts) else watts)


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
