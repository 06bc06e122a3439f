"""From the settings of a scale to its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tap.config.methods import DENSE, FROZEN, PRETRAINING, RANDOM_ENCODER, TAP
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.config.task import TaskConfig
from tap.config.variants import VARIANTS
from tap.errors import UserError
from tap.runs import Run
from tap.task_facts import TASKS

FURTHER: Final = "further_"
"""How the tidy table of a task's `further_runs` is called, before the task."""


def task_of(cfg: ScaleConfig, task: str) -> TaskConfig:
    """Settings of one task.

    Raises:
        UserError: the scale does not have it.
    """
    if task not in cfg.all_tasks:
        raise UserError(f"task: '{task}' is not among the tasks of scale '{cfg.scale}': {', '.join(cfg.tasks)}")
    return cfg.all_tasks[task]


def run_of(spec: JobSpec) -> Run:
    """The run that the settings belong to."""
    return Run(spec.scale, spec.task, spec.method, spec.rate, spec.variant, spec.seed)


def pretraining_run(cfg: ScaleConfig, task: str) -> Run:
    """The run that makes the task's pre-trained backbone: one for all seeds, as public weights are."""
    return Run(cfg.scale, task_of(cfg, task).pretrain.share or task, PRETRAINING)


def pretrainings(cfg: ScaleConfig, task: str) -> list[Run]:
    """`pretraining_run`, unless the settings give a file with the weights."""
    return [pretraining_run(cfg, task)] if task_of(cfg, task).pretrain.weights is None else []


def pictured_runs(cfg: ScaleConfig) -> list[Run]:
    """The runs of dense tasks that a person looks at: no pruning and TAP-J at the main rate, first seed."""
    return [
        Run(cfg.scale, task, method, rate, seed=settings.seeds[0])
        for task, settings in cfg.tasks.items()
        if TASKS[task].drawing
        for method, rate in ((DENSE, 1.0), (TAP, cfg.main_rate))
    ]


def dense_run(cfg: ScaleConfig, task: str, seed: int) -> Run:
    """The no-pruning run of a seed."""
    return Run(cfg.scale, task, DENSE, seed=seed)


def runs_of_table(cfg: ScaleConfig, task: str) -> list[Run]:
    """The runs behind all tables of a task.

    Raises:
        UserError: the scale does not have the task.
    """
    return [*main_runs(cfg, task), *further_runs(cfg, task)]


def main_runs(cfg: ScaleConfig, task: str) -> list[Run]:
    """The runs behind a task's main table: each method at the main rate.

    A dense task has one more of each seed: no pruning with a random encoder. It says what a trained encoder is worth.

    Raises:
        UserError: the scale does not have the task.
    """
    settings = task_of(cfg, task)
    runs = [
        Run(cfg.scale, task, method, 1.0 if method == DENSE else cfg.main_rate, seed=seed)
        for method in settings.methods
        for seed in seeds_of(cfg, task, method)
    ]
    if TASKS[task].floors and settings.start_from == "dense":  # at paper scale it would cost as much as a method
        runs += [Run(cfg.scale, task, DENSE, variant=RANDOM_ENCODER, seed=seed) for seed in settings.seeds]
    return runs


def further_runs(cfg: ScaleConfig, task: str) -> list[Run]:
    """The runs of a task that other tables compare with these: TAP at the other keep rates, and the scale's variants.

    Raises:
        UserError: the scale does not have the task.
    """
    runs = [
        Run(cfg.scale, task, method, rate, seed=seed)
        for method in task_of(cfg, task).methods
        if method in (TAP, *FROZEN)
        for rate in sorted({*cfg.keep_rates} - {cfg.main_rate})
        for seed in seeds_of(cfg, task, method)
    ]
    return runs + variant_runs(cfg, task)


def runs_of_tidy(cfg: ScaleConfig, of: str) -> list[Run]:
    """The runs of a tidy table: `main_runs` of a task called by its name, `further_runs` of ``further_<task>``."""
    task = of.removeprefix(FURTHER)
    return main_runs(cfg, task) if task == of else further_runs(cfg, task)


def variant_runs(cfg: ScaleConfig, task: str) -> list[Run]:
    """The runs of the variants that the scale asks for, of those that the task has."""
    settings = task_of(cfg, task)
    return [
        Run(cfg.scale, task, method, rate, name, seed)
        for name in cfg.variants
        if task in VARIANTS[name].tasks
        for method in VARIANTS[name].methods
        if method in settings.methods
        for rate in VARIANTS[name].rates or (cfg.main_rate,)
        for seed in seeds_of(cfg, task, method)
    ]


def seeds_of(cfg: ScaleConfig, task: str, method: str) -> list[int]:
    """Seeds of a method's runs: the task's own, and of a joint training those that are joint seeds, too."""
    joint = cfg.joint.seeds if cfg.joint is not None and method in FROZEN else None
    return [seed for seed in task_of(cfg, task).seeds if joint is None or seed in joint]


def probes_of(task: str) -> tuple[str, ...]:
    """The kinds of probes that a task has."""
    return TASKS[task].probes


def probed_runs(cfg: ScaleConfig, task: str, kind: str) -> list[Run]:
    """The no-pruning runs whose checkpoints a probe concerns: that of the first seed for `layers`, else all seeds'.

    Raises:
        UserError: the scale does not have the task.
    """
    seeds = task_of(cfg, task).seeds
    return [dense_run(cfg, task, seed) for seed in (seeds[:1] if kind == "layers" else seeds)]


def probe_folder(scale: str, task: str, kind: str) -> Path:
    """Where a task's probes lie: `layers` (criteria at every block) or `recovery` (endpoints)."""
    return Path("results") / scale / "probes" / task / kind
