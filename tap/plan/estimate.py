"""What jobs need before anything runs: operations, hours, memory, disk (docs/plan.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tap.config.data import DataConfig
from tap.config.lookup import method_of
from tap.config.methods import MAIN, PRETRAINING
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.plan.controls import control_parameters
from tap.plan.endpoints import endpoint_file, endpoint_path
from tap.plan.flops import forward_flops, training_flops
from tap.plan.joint import JointRun, is_joint, joint_start, joint_tasks, other_registers
from tap.plan.runs import dense_run, probe_folder, probed_runs, run_of, task_of
from tap.plan.saved_memory import least_bytes, parameters, training_bytes
from tap.plan.specs import endpoint_specs, job_spec, probe_parameters
from tap.plan.starts import is_start, source_run
from tap.plan.study_flops import control_flops, diagnostics_flops, endpoint_flops, probe_flops
from tap.plan.teaching import teacher_run
from tap.plan.tuning import candidate_spec, rounds_of, searched_seeds
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

Kind = Literal["train", "evaluate", "endpoint", "probe", "control"]

STUDIES: Final[Mapping[Kind, str]] = {"endpoint": "endpoint", "probe": "probes", "control": "controls"}
"""Kinds of jobs that train nothing and evaluate no run of their own, by what stands for their method."""


@dataclass(frozen=True)
class PlannedJob:
    """One job that computes.

    Attributes:
        kind: its kind, as its command is called.
        task: its task; `joint` where it trains several.
        method, variant: of its run; of a study the word of `STUDIES`.
        name: id of its run; of a study what its command takes.
        steps, images: optimizer steps and images, those of an evaluation included.
        work: operations by the task whose images they are spent on.
        memory: bytes of GPU memory of one process; of an evaluation 0.
        least: the same where it passes as few images at once as its settings allow.
        disk: bytes that it leaves, its resume state included.
        after: names of the jobs that it waits for, none of which is an evaluation or has controls.
        processes: cards that it takes at once.
        record: the record that says what it took, in the folder of a scale.
        settings: what that record must say for it to be of this job.
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
    record: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


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
    """The trainings behind some runs, with all that they start from, learn from or wait for, and their evaluations."""
    jobs: dict[tuple[str, str], PlannedJob] = {}

    def train(run: Run) -> str:
        spec = job_spec(cfg, run)
        joint = is_joint(spec)
        name = JointRun.with_run(run).id if joint else run.id
        if ("train", name) not in jobs:
            sources = (joint_start(spec), source_run(spec), teacher_run(spec))
            behind = [train(found) for found in sources if found is not None and found != run]
            behind += [choose(run.task)] if endpoint_file(spec) is not None else []
            after = tuple(dict.fromkeys(behind))
            jobs["train", name] = _joint_training(cfg, run, after) if joint else _training(cfg, spec, after)
        return name

    def choose(task: str) -> str:
        if ("endpoint", task) not in jobs:
            after = tuple(train(dense_run(cfg, task, seed)) for seed in task_of(cfg, task).seeds)
            jobs["endpoint", task] = _endpoint(cfg, task, after)
        return task

    for run in runs:
        after = train(run)
        if not is_start(run) and run.method != PRETRAINING:
            jobs["evaluate", run.id] = _evaluation(cfg, run, after)
    return list(jobs.values())


def planned_probes(cfg: ScaleConfig, task: str, kinds: Sequence[str]) -> list[PlannedJob]:
    """Probes of a task's checkpoints without pruning, of which the last may wait for the one before it."""
    settings = task_of(cfg, task).probes
    done: tuple[str, ...] = ()
    found = []
    for kind in sorted(kinds, reverse=True):  # recovery, whose endpoint the other one reads at, then layers
        runs = probed_runs(cfg, task, kind)
        specs = [job_spec(cfg, run) for run in runs]
        images = min(settings.images or _validation_images(specs[0]), _validation_images(specs[0]))
        work = sum(images * _windows(spec) * probe_flops(spec, kind, settings) for spec in specs)
        path = (probe_folder(cfg.scale, task, kind) / "probe.json").relative_to(f"results/{cfg.scale}")
        after = (*(run.id for run in runs), *done)
        asked = {"probes": probe_parameters(cfg, task, kind)["probes"], "checkpoints": [run.id for run in runs]}
        name = f"{kind} {task}"
        found.append(_study("probe", task, name, images * len(specs), work, after, str(path), asked))
        done = (name,)
    return found


def planned_controls(cfg: ScaleConfig, run: Run) -> PlannedJob:
    """All controls of a checkpoint, its oracle and what its choice is worth."""
    spec, settings = job_spec(cfg, run), task_of(cfg, run.task).controls
    validation = _validation_images(spec)
    work = _windows(spec) * control_flops(spec, settings, _calibration_images(spec), validation)
    after = JointRun.with_run(run).id if is_joint(spec) else run.id
    asked = {"controls": control_parameters(cfg, run)["controls"]}
    record = f"runs/{run.id}/controls.record.json"
    return _study("control", run.task, run.id, settings.images or validation, work, (after,), record, asked)


def planned_search(cfg: ScaleConfig, task: str) -> list[PlannedJob]:
    """The trainings of the search of a task's options (`tap tune`), with their judgement on the calibration split."""
    found = []
    for candidate in rounds_of(cfg, task, "options")[0]:
        for seed in searched_seeds(cfg, task):
            spec = candidate_spec(cfg, task, "options", candidate, seed)
            training = _training(cfg, spec, ())
            judged = spec.data.calibration * _windows(spec) * forward_flops(spec)
            found.append(replace(training, work={task: training.work[task] + judged}))
    return found


def _endpoint(cfg: ScaleConfig, task: str, after: tuple[str, ...]) -> PlannedJob:
    specs = endpoint_specs(cfg, task)
    images = _calibration_images(specs[0])
    work = images * _windows(specs[0]) * endpoint_flops(specs)
    record = endpoint_path(cfg.scale, task).with_suffix(".record.json").name
    return _study("endpoint", task, task, images, work, after, record, {"models": len(specs)})


def _study(
    kind: Kind,
    task: str,
    name: str,
    images: float,
    work: float,
    after: tuple[str, ...],
    record: str,
    settings: Mapping[str, Any],
) -> PlannedJob:
    return PlannedJob(
        kind,
        task,
        STUDIES[kind],
        MAIN,
        name,
        0,
        float(images),
        {task: work},
        0.0,
        0.0,
        1e6,
        after,
        record=record,
        settings=settings,
    )


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
        f"runs/{run.id}/run.json",
        {"steps": steps},
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
        f"runs/{replace(run, task=tasks[0]).id}/run.json",
        {"steps": steps},
    )


def _calibration(spec: JobSpec) -> float:
    if not method_of(spec.method).calibrated or spec.rate == 1.0:
        return 0.0
    times = 2 if spec.method in CALIBRATED_TWICE else 1
    return times * CALIBRATION_PASSES * _calibration_images(spec) * forward_flops(spec)


def _calibration_images(spec: JobSpec) -> int:
    return min(spec.data.calibration, spec.data.limit_calibration or spec.data.calibration)


def _validation_images(spec: JobSpec) -> int:
    images = VALIDATION_IMAGES[spec.data.name]
    return min(images, spec.data.limit_val or images)


def _windows(spec: JobSpec) -> float:
    return WINDOWS if spec.eval.inference == "slide" else 1.0


def _evaluation(cfg: ScaleConfig, run: Run, after: str) -> PlannedJob:
    spec = job_spec(cfg, run)
    images = _validation_images(spec)
    heard = min(images, spec.eval.register_images or images)
    work = images * forward_flops(spec) + heard * diagnostics_flops(spec, len(other_registers(cfg, run)))
    return PlannedJob(
        "evaluate",
        spec.task,
        spec.method,
        spec.variant,
        run.id,
        0,
        float(images),
        {spec.task: _windows(spec) * work},
        0.0,
        0.0,
        1e6,
        (after,),
        record=f"runs/{run.id}/evaluation.json",
    )
