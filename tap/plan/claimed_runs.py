"""The smallest set of runs, probes and controls that judges a claim of the paper, from the arguments of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from tap.config.methods import DENSE, METHODS
from tap.config.scale import ScaleConfig
from tap.config.variants import VARIANTS
from tap.errors import UserError
from tap.plan.runs import dense_run, probes_of, runs_of_table, seeds_of
from tap.runs import Run
from tap.task_facts import TASKS

SEEDS: Final = 2
"""Seeds that say how much a seed does: fewer have no deviation."""

_ALL_METHODS: Final = ("ahead_of_all",)
_AGAINST_DENSE: Final = ("drop", "cost", "percent")
BY_PROFILES: Final = ("faster", "speed", "speed_gain", "controller_share", "less_memory")
"""Predicates that profiles answer, which need no run."""


def claimed_runs(cfg: ScaleConfig, parts: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Run]:
    """Runs that the parts of a claim compare, of the tasks that the scale makes, with no more seeds than needed.

    A part without a method of its own needs the checkpoints without pruning of its task.

    Args:
        cfg: the settings.
        parts: predicate and arguments of each part.

    Raises:
        UserError: a part needs a variant that the scale does not make.
    """
    runs: dict[Run, None] = {}
    for predicate, arguments in parts:
        if predicate in BY_PROFILES:
            continue
        for task in _tasks(cfg, arguments):
            chosen = [run for subject in _subjects(arguments) if (run := _run(cfg, task, subject)) is not None]
            if predicate in _ALL_METHODS:
                chosen += [run for run in runs_of_table(cfg, task) if run.rate in (1.0, cfg.main_rate)]
            if not chosen or any(word in predicate for word in _AGAINST_DENSE):
                chosen.append(dense_run(cfg, task, 0))
            for run in chosen:
                for seed in seeds_of(cfg, task, run.method)[:SEEDS]:
                    runs[replace(run, seed=seed)] = None
    return list(runs)


def claimed_probes(cfg: ScaleConfig, parts: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, tuple[str, ...]]:
    """Kinds of probes behind the parts of a claim that are about criteria and endpoints, by task; arguments as above.

    Criteria of a dense task are read at the endpoint that its recovery probe prefers.
    """
    found: dict[str, tuple[str, ...]] = {}
    for predicate, arguments in parts:
        for task in _tasks(cfg, arguments):
            kinds = ("recovery",) if predicate == "prefers_endpoint" else probes_of(task)
            found[task] = tuple(dict.fromkeys((*found.get(task, ()), *kinds)))
    return found


def claimed_controls(cfg: ScaleConfig, parts: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Run]:
    """The checkpoints whose controls the parts of a claim name; arguments as above."""
    found: dict[Run, None] = {}
    for _, arguments in parts:
        for task in _tasks(cfg, arguments):
            for subject in filter(_is_control, _subjects(arguments)):
                if (run := _run(cfg, task, subject)) is not None:
                    found |= dict.fromkeys(replace(run, seed=s) for s in seeds_of(cfg, task, run.method)[:SEEDS])
    return list(found)


def _tasks(cfg: ScaleConfig, arguments: Mapping[str, Any]) -> list[str]:
    named = [str(value) for key, value in arguments.items() if key in ("task", "first", "second")]
    return [name for name in named if name in TASKS and name in cfg.tasks]


def _subjects(arguments: Mapping[str, Any]) -> list[str]:
    return [str(value) for key, value in arguments.items() if key in ("a", "b", "method")]


def _is_control(subject: str) -> bool:
    """Whether it is no variant of its method, such as `tap_f:zero_fill`: a control of the main run's checkpoint."""
    name, _, variant = subject.partition(":")
    return variant != "" and (variant not in VARIANTS or name.partition("@")[0] not in VARIANTS[variant].methods)


def _run(cfg: ScaleConfig, task: str, subject: str) -> Run | None:
    """The run that `tap`, `tap@0.7` or `tap_f:hard_only` stands for, or that is controlled; None for a criterion."""
    name, _, variant = subject.partition(":")
    method, _, rate = name.partition("@")
    if method not in METHODS or method not in cfg.tasks[task].methods:  # type: ignore[index]
        return None
    if _is_control(subject):
        variant = ""
    if variant and variant not in cfg.variants:
        raise UserError(f"--claim: {task}/{subject} is needed, and scale '{cfg.scale}' does not make it (variants)")
    main = 1.0 if method == DENSE else cfg.main_rate
    return Run(cfg.scale, task, method, float(rate) if rate else main, variant or "main")
