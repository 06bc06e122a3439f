"""What hours of training would only find out in the end, looked at in a minute and told in one list."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tap.config.datasets import CHECKED
from tap.config.scale import ScaleConfig
from tap.config.schema import TrainConfig
from tap.engine.gpu_pool import visible_cards
from tap.errors import UserError
from tap.plan.estimate import JOINT, PlannedJob, planned_jobs, training_images
from tap.plan.profiles import gpu_facts
from tap.plan.rates import used_seconds
from tap.plan.runs import runs_of_table
from tap.tasks.given_weights import look_at_weights
from tap.tasks.report import Report

PLACEHOLDER: Final = "change-me"
_USABLE: Final = 0.95
"""Share of a card's memory that a training can have; the driver and torch's own context take the rest."""

_STATES: Final = 6 / 7
"""Share of a training's disk that its two resume states take; it is free again when the training is through."""

_PARTS: Final = {
    "imagenet": ("train", "val"),
    "ade20k": ("images/training", "images/validation", "annotations/training", "annotations/validation"),
    "coco": (
        "train2017",
        "val2017",
        "annotations/instances_train2017.json",
        "annotations/instances_val2017.json",
    ),
}
"""What the folder of a person's data set holds."""


def preflight(cfg: ScaleConfig) -> Report:
    """Looks at placeholders, data, weights, schedules, disk and GPUs of a scale, all of them whatever is wrong.

    Data are looked at for being there; `tap data check` counts and opens them.
    """
    report = Report(f"scale {cfg.scale}, before anything is trained")
    for name in _placeholders(cfg.model_dump(mode="json")):
        report.problem(f"{name}: still is '{PLACEHOLDER}'; put your own value there")
    for task, settings in cfg.tasks.items():
        _look_at_data(report, task, Path(settings.data.root).expanduser(), settings.data.name)
        look_at_weights(report, task, settings)
        for part, train in (("dense", settings.dense), ("method", settings.method)):
            _look_at_schedule(report, cfg, task, part, train)
    jobs = _planned(report, cfg)
    _look_at_disk(report, cfg, jobs)
    _look_at_cards(report, cfg, jobs)
    return report


def _placeholders(tree: Any, name: str = "") -> Iterator[str]:
    """Dotted names of the settings that their user has not filled in."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _placeholders(value, f"{name}.{key}" if name else str(key))
    elif isinstance(tree, list):
        for value in tree:
            yield from _placeholders(value, name)
    elif isinstance(tree, str) and PLACEHOLDER in tree:
        yield name


def _look_at_data(report: Report, task: str, root: Path, dataset: str) -> None:
    if dataset not in CHECKED:
        report.facts.append(f"data of {task}: fetched by the workflow")
        return
    missing = [part for part in _PARTS[dataset] if not (root / part).exists()]
    if not root.is_dir():
        report.problem(f"tasks.{task}.data.root: {root} is no folder; put the data there, or name where they are")
    elif missing:
        report.problem(f"tasks.{task}.data.root: {root} does not hold all of {dataset}; missing are", missing)
    else:
        report.facts.append(f"data of {task}: {root} (`tap data check {task}` counts them)")


def _look_at_schedule(report: Report, cfg: ScaleConfig, task: str, part: str, train: TrainConfig) -> None:
    """What the settings' own check cannot know: the number of images, and of processes."""
    processes, where = cfg.processes_of(task), f"tasks.{task}.{part}.batch_size"
    if train.batch_size % processes:
        report.problem(
            f"{where}: {train.batch_size} cannot be shared evenly by {processes} processes; choose a multiple"
        )
    try:
        images = training_images(cfg.tasks[task].data)  # type: ignore[index]
    except UserError:
        return  # the size of a prepared data set is known when it is there
    if images < train.batch_size:
        report.problem(f"{where}: {train.batch_size} is more than the {images} images that an epoch has")


def _planned(report: Report, cfg: ScaleConfig) -> list[PlannedJob]:
    """The trainings that are not finished yet."""
    try:
        jobs = planned_jobs(cfg, [run for task in cfg.tasks for run in runs_of_table(cfg, task)])
    except UserError as error:
        report.problem(str(error))
        return []
    done = used_seconds(jobs, cfg.scale, Path("results"))
    return [job for job in jobs if job.kind == "train" and (job.kind, job.name) not in done]


def _look_at_disk(report: Report, cfg: ScaleConfig, jobs: Sequence[PlannedJob]) -> None:
    """Space for the weights of all trainings, and for the states of the largest one while it runs."""
    needed = sum(job.disk * (1 - _STATES) for job in jobs) + max((job.disk for job in jobs), default=0.0) * _STATES
    free = shutil.disk_usage(".").free
    words = f"{free / 1e9:,.1f} GB free in {Path.cwd()}, {needed / 1e9:,.1f} GB needed for {len(jobs)} trainings"
    if free < needed:
        report.problem(f"disk: {words}; make room, or put results/ and .tap/ on a larger disk (links are followed)")
    else:
        report.facts.append(f"disk: {words}")


def _look_at_cards(report: Report, cfg: ScaleConfig, jobs: Sequence[PlannedJob]) -> None:
    """As many GPUs as a training takes, and enough memory in each."""
    cards = visible_cards() if cfg.device != "cpu" else []
    if not cards:
        if cfg.device == "cuda":
            report.problem("device: 'cuda', and this machine has no GPU that may be used; look from one that has")
        else:
            report.facts.append("device: the CPU")
        return
    most = max((job.processes for job in jobs), default=1)
    if len(cards) < most:
        report.problem(f"processes: a training takes {most} GPUs, and {len(cards)} may be used here")
    if not (found := gpu_facts("name", "memory.total")):
        return
    name, memory = found[0], float(found[1].split()[0]) * 2**20
    report.facts.append(f"device: {len(cards)} GPU(s), {name} with {memory / 1e9:,.0f} GB")
    worst = {(job.task, job.method): job for job in sorted(jobs, key=lambda job: job.least)}
    for (task, method), job in sorted(worst.items()):
        if job.least > memory * _USABLE:
            where = "joint.train" if task == JOINT else f"tasks.{task}"
            report.problem(
                f"GPU memory: {task}/{method} needs {job.least / 1e9:,.0f} GB in each of {job.processes} process(es), "
                f"a card has {memory / 1e9:,.0f} GB; set micro_batch to auto or checkpointing in {where}, or more "
                "processes"
            )
