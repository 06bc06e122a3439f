"""The smallest set of runs by which a claim of the paper can be judged, from the arguments of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from tap.config.methods import DENSE, METHODS
from tap.config.schema import ScaleConfig
from tap.config.variants import VARIANTS
from tap.errors import UserError
from tap.plan.runs import dense_run, runs_of_table, seeds_of
from tap.runs import Run
from tap.task_facts import TASKS

SEEDS: Final = 2
"""Seeds that say how much a seed does: fewer have no deviation."""

_ALL_METHODS: Final = ("ahead_of_all",)
_AGAINST_DENSE: Final = ("drop", "cost", "percent", "faster", "less")


def claimed_runs(cfg: ScaleConfig, parts: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Run]:
    """Runs that the parts of a claim compare, of the tasks that the scale makes, with no more seeds than needed.

    A part without a method of its own (probes, criteria) needs the checkpoints without pruning of its task.

    Args:
        cfg: the settings.
        parts: predicate and arguments of each part.

    Raises:
        UserError: a part needs a variant that the scale does not make.
    """
    runs: dict[Run, None] = {}
    for predicate, arguments in parts:
        named = [str(value) for key, value in arguments.items() if key in ("task", "first", "second")]
        for task in (name for name in named if name in TASKS and name in cfg.tasks):
            found = [_run(cfg, task, str(value)) for key, value in arguments.items() if key in ("a", "b", "method")]
            chosen = [run for run in found if run is not None]
            if predicate in _ALL_METHODS:
                chosen += [run for run in runs_of_table(cfg, task) if run.rate in (1.0, cfg.main_rate)]
            if not chosen or any(word in predicate for word in _AGAINST_DENSE):
                chosen.append(dense_run(cfg, task, 0))
            for run in chosen:
                for seed in seeds_of(cfg, task, run.method)[:SEEDS]:
                    runs[replace(run, seed=seed)] = None
    return list(runs)


def _run(cfg: ScaleConfig, task: str, subject: str) -> Run | None:
    """The run that `tap`, `tap@0.7` or `tap_f:hard_only` stands for; None for a criterion.

    What is no variant of its method, such as `tap_f:zero_fill`, is a control of the main run's checkpoint.
    """
    name, _, variant = subject.partition(":")
    method, _, rate = name.partition("@")
    if method not in METHODS or method not in cfg.tasks[task].methods:  # type: ignore[index]
        return None
    if variant not in VARIANTS or method not in VARIANTS[variant].methods:
        variant = ""
    if variant and variant not in cfg.variants:
        raise UserError(f"--claim: {task}/{subject} is needed, and scale '{cfg.scale}' does not make it (variants)")
    main = 1.0 if method == DENSE else cfg.main_rate
    return Run(cfg.scale, task, method, float(rate) if rate else main, variant or "main")
