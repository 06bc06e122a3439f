"""What trainings and evaluations need before anything runs: operations, hours, memory, disk (docs/plan.md)."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from tap.config.lookup import method_of
from tap.config.methods import DENSE, PRETRAINING
from tap.config.schema import DataConfig, JobSpec, ScaleConfig
from tap.errors import UserError
from tap.plan.accelerators import ACCELERATORS, UTILISATION
from tap.plan.flops import forward_flops, training_flops
from tap.plan.joint import JointRun, is_joint, joint_start, joint_tasks
from tap.plan.runs import run_of
from tap.plan.saved_memory import least_bytes, parameters, training_bytes
from tap.plan.specs import job_spec
from tap.plan.starts import is_start, source_run
from tap.plan.teaching import teacher_run
from tap.runs import Run

JOINT: Final = "joint"
"""What stands for the task of a training of several."""

TRAINING_IMAGES: Final = {"imagenet": 1_281_167, "fashion_mnist": 60_000, "ade20k": 20_210, "coco": 118_287}
VALIDATION_IMAGES: Final = {
    "imagenet": 50_000,
    "fashion_mnist": 10_000,
    "ade20k": 2_000,
    "coco": 5_000,
    "microscopy": 235,
    "fashion_scenes": 500,
}
DATA_BYTES: Final = {
    "imagenet": 160e9,
    "fashion_mnist": 0.06e9,
    "ade20k": 1.2e9,
    "coco": 27e9,
    "microscopy": 0.05e9,
    "fashion_scenes": 0.12e9,
}

WINDOWS: Final = 2.0
"""Windows of an ADE20K image, on average, that is brought to a short side of one window."""

CALIBRATION_PASSES: Final = 24
"""Steps of the bisection that finds a threshold, each a pass over the calibration split."""

CALIBRATED_TWICE: Final = ("ats", "algm")
"""Methods whose threshold is found before the training as well."""

Kind = Literal["train", "evaluate"]


@dataclass(frozen=True)
class PlannedJob:
    """One training or evaluation.

    Attributes:
        kind: `train` or `evaluate`.
        task: its task; `joint` where it trains several.
        method, variant: of its run.
        name: id of its run.
        steps, images: optimizer steps and images, those of an evaluation included.
        work: operations by the task whose images they are spent on.
        memory: bytes of GPU memory of one process; of an evaluation 0.
        least: the same where it passes as few images at once as its settings allow.
        disk: bytes that it leaves, its resume state included.
        after: ids of trainings that it waits for.
        processes: cards that it takes at once.
    """

    kind: Kind
    task: str
    method: str
    variant: str
    name: str
    steps: int
    images: float
    work: Mapping[str, float]
    memory: float
    least: float
    disk: float
    after: tuple[str, ...] = ()
    processes: int = 1


@dataclass(frozen=True)
class Rates:
    """Operations per second of a card (or of a CPU job), by kind of job and task, with the interval's factors.

    Attributes:
        speeds: by kind and task.
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

    def _speed(self, kind: str, task: str) -> float:
        try:
            return self.speeds[kind, task]
        except KeyError:
            raise UserError(f"plan: no finished {kind} job of {task} without pruning says how fast it runs") from None


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
    """Seconds of finished jobs, from their records, by kind and run id; a training of other steps is another one.

    Args:
        jobs: which to look for.
        scale: their scale.
        folder: `results` or `published`.
    """
    found = {}
    for job in jobs:
        name = {"train": "run.json", "evaluate": "evaluation.json"}[job.kind]
        runs = [f"{task}/{job.name}" for task in job.work] if job.task == JOINT else [job.name]
        path = folder / scale / "runs" / runs[0] / name
        record = json.loads(path.read_text()) if path.is_file() else {}
        if "wall_seconds" in record and record.get("steps", job.steps) == job.steps:
            found[job.kind, job.name] = float(record["wall_seconds"])
    return found


def steps_of(spec: JobSpec) -> int:
    """Optimizer steps of a training.

    Raises:
        UserError: its length is in epochs of a data set whose size is not known before it is read.
    """
    if spec.train.unit == "steps":
        return int(spec.train.length)
    return int(spec.train.length * training_images(spec.data) / spec.train.batch_size)


def training_images(data: DataConfig) -> int:
    """Images that an epoch has: those that are not put aside for calibration.

    Raises:
        UserError: the size of the data set is not known before it is read.
    """
    if data.name not in TRAINING_IMAGES:
        raise UserError(f"data.name: the length of an epoch of '{data.name}' is not known; give the training in steps")
    return min(TRAINING_IMAGES[data.name] - data.calibration, data.limit_train or TRAINING_IMAGES[data.name])


def planned_jobs(cfg: ScaleConfig, runs: Sequence[Run]) -> list[PlannedJob]:
    """The trainings behind some runs, with all that they start from or learn from, and the runs' evaluations."""
    jobs: dict[tuple[str, str], PlannedJob] = {}

    def train(run: Run) -> str:
        spec = job_spec(cfg, run)
        joint = is_joint(spec)
        name = JointRun.with_run(run).id if joint else run.id
        if ("train", name) not in jobs:
            sources = (joint_start(spec), source_run(spec), teacher_run(spec))
            behind = [found for found in sources if found is not None and found != run]
            after = tuple(dict.fromkeys(train(found) for found in behind))
            jobs["train", name] = _joint_training(cfg, run, after) if joint else _training(cfg, spec, after)
        return name

    for run in runs:
        after = train(run)
        if not is_start(run) and run.method != PRETRAINING:
            jobs["evaluate", run.id] = _evaluation(job_spec(cfg, run), after)
    return list(jobs.values())


def _training(cfg: ScaleConfig, spec: JobSpec, after: tuple[str, ...]) -> PlannedJob:
    steps = steps_of(spec)
    images = float(steps * spec.train.batch_size)
    work = images * training_flops(spec)
    if spec.mixed:  # of all these tasks, one is drawn at each step
        seen = [(spec.train.batch_size, spec)]
        seen += [(how.batch_size, spec.model_copy(update={"model": how.model})) for how in spec.mixed.values()]
        work = sum(steps / len(seen) * size * training_flops(each) for size, each in seen)
        images = sum(steps / len(seen) * size for size, _ in seen)
    work += _calibration(spec)
    run = run_of(spec)
    weights = parameters(spec.model)
    return PlannedJob(
        "train",
        spec.task,
        spec.method,
        spec.variant,
        run.id,
        steps,
        images,
        {spec.task: work},
        training_bytes(spec, cfg.processes_of(spec.task)),
        least_bytes(spec, cfg.processes_of(spec.task)),
        weights * 4 * (1 + 2 * 3),  # published, and two resume states of weights and both moments
        after,
        cfg.processes_of(spec.task),
    )


def _joint_training(cfg: ScaleConfig, run: Run, after: tuple[str, ...]) -> PlannedJob:
    tasks = joint_tasks(cfg, run.method)
    specs = {task: job_spec(cfg, replace(run, task=task)) for task in tasks}
    steps = int(specs[tasks[0]].train.length)
    share = steps / len(tasks)
    images = {task: share * spec.train.batch_size for task, spec in specs.items()}
    return PlannedJob(
        "train",
        JOINT,
        run.method,
        run.variant,
        JointRun.with_run(run).id,
        steps,
        sum(images.values()),
        {task: images[task] * training_flops(spec) for task, spec in specs.items()},
        max(training_bytes(spec, cfg.processes_of(None)) for spec in specs.values()),
        max(least_bytes(spec, cfg.processes_of(None)) for spec in specs.values()),
        0.1 * 4 * 7 * sum(parameters(spec.model) for spec in specs.values()),  # small updates beside a shared base
        after,
        cfg.processes_of(None),
    )


def _calibration(spec: JobSpec) -> float:
    if not method_of(spec.method).calibrated or spec.rate == 1.0:
        return 0.0
    images = min(spec.data.calibration, spec.data.limit_calibration or spec.data.calibration)
    times = 2 if spec.method in CALIBRATED_TWICE else 1
    return times * CALIBRATION_PASSES * images * forward_flops(spec)


def _evaluation(spec: JobSpec, after: str) -> PlannedJob:
    images = VALIDATION_IMAGES[spec.data.name]
    images = min(images, spec.data.limit_val or images)
    windows = WINDOWS if spec.eval.inference == "slide" else 1.0
    work = images * windows * forward_flops(spec)
    return PlannedJob(
        "evaluate",
        spec.task,
        spec.method,
        spec.variant,
        run_of(spec).id,
        0,
        float(images),
        {spec.task: work},
        0.0,
        0.0,
        1e6,
        (after,),
    )


def critical_path(jobs: Sequence[PlannedJob], seconds: Mapping[tuple[str, str], float]) -> float:
    """Seconds of the longest chain of jobs that wait for one another."""
    trainings = {job.name: job for job in jobs if job.kind == "train"}
    ends: dict[str, float] = {}

    def end(name: str) -> float:
        if name not in ends:
            ends[name] = seconds["train", name] + max(map(end, trainings[name].after), default=0.0)
        return ends[name]

    chains = [end(name) for name in trainings]
    chains += [
        seconds["evaluate", job.name] + max(map(end, job.after), default=0.0) for job in jobs if job.kind == "evaluate"
    ]
    return max(chains, default=0.0)


def wall_seconds(jobs: Sequence[PlannedJob], seconds: Mapping[tuple[str, str], float], cards: int) -> float:
    """Time from start to end on `cards` cards, where the longest job that fits on the free ones starts first.

    Args:
        jobs: what to run; none takes more cards than there are.
        seconds: of each job by kind and name.
        cards: cards, or places for jobs side by side.
    """
    waiting = sorted(jobs, key=lambda job: (-seconds[job.kind, job.name], job.kind, job.name))
    done: set[str] = set()
    running: list[tuple[float, str, str, int]] = []
    now, free = 0.0, cards
    while waiting or running:
        left = []
        for job in waiting:
            if job.processes <= free and done.issuperset(job.after):
                free -= job.processes
                heapq.heappush(running, (now + seconds[job.kind, job.name], job.kind, job.name, job.processes))
            else:
                left.append(job)
        waiting = left
        now, kind, name, taken = heapq.heappop(running)
        free += taken
        if kind == "train":
            done.add(name)
    return now
