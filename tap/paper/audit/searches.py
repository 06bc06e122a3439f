"""The searches of methods' own settings as the audit shows them: what was tried, what was best, what is in use."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tap.config.methods import METHODS
from tap.config.scale import ScaleConfig
from tap.plan.tuning import SEARCHES, best_values, budget_in_words, in_use, read_search, search_path
from tap.task_facts import TASKS


@dataclass(frozen=True)
class SearchedMethod:
    """A method's candidates.

    Attributes:
        title: how tables call the method.
        candidates: values in words, with the mean score on the calibration split; None where it diverged.
        best: number of the best, from 1.
        in_use: whether the settings give the method these values.
    """

    title: str
    candidates: tuple[tuple[str, float | None], ...]
    best: int
    in_use: bool


@dataclass(frozen=True)
class Searched:
    """The searches of a task.

    Attributes:
        task: its title.
        metric: what the scores are.
        images: calibration images behind each.
        seeds: whose mean they are.
        methods: of the search of options; empty where there is none.
        budget: what the search of the budget found, in words; empty where there is none.
    """

    task: str
    metric: str
    images: int
    seeds: tuple[int, ...]
    methods: tuple[SearchedMethod, ...]
    budget: str


def searches_of(cfg: ScaleConfig, root: Path, left_out: Collection[Path] = ()) -> tuple[Searched, ...]:
    """The searches of a scale's tasks.

    Args:
        cfg: the settings in use.
        root: the project's folder.
        left_out: files that no job is known to have made as they are.

    Raises:
        UserError: a file holds no search.
    """
    found = []
    for task in cfg.tasks:
        options, budget = (
            read_search(path) if path.is_file() and path not in left_out else None
            for path in (root / search_path(cfg.scale, task, search) for search in SEARCHES)
        )
        if (known := options or budget) is None:
            continue
        metric = TASKS[task].metric(known["metric"])
        found.append(
            Searched(
                TASKS[task].title,
                f"{metric.title}, {metric.unit}",
                known["calibration_images"],
                tuple(known["seeds"]),
                () if options is None else _methods(cfg, task, options),
                "" if budget is None else budget_in_words(budget),
            )
        )
    return tuple(found)


def _methods(cfg: ScaleConfig, task: str, found: dict[str, Any]) -> tuple[SearchedMethod, ...]:
    best = best_values(cfg, task, found)
    return tuple(
        SearchedMethod(
            METHODS[name].row.title,
            tuple((each["text"], each["mean"]) for each in found["methods"][name]["candidates"]),
            found["methods"][name]["best"],
            in_use(cfg, task, name, values),
        )
        for name, values in best.items()
    )
