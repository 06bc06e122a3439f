"""What the figures of the register's outputs show: summaries over images by task and pruning block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tap.config.methods import TAP, TAP_F
from tap.paper.control_results import ControlResults
from tap.paper.evidence import Evidence
from tap.paper.figures.points import entry
from tap.paper.statistics import Array
from tap.paper.tables.control_rows import LAYERS
from tap.task_facts import TASKS

SUMMARIES: Final[Mapping[str, Callable[[Array], float]]] = {
    "mean": lambda values: float(np.mean(values)),
    "sd": lambda values: float(np.std(values)),
    "lower quartile": lambda values: float(np.quantile(values, 0.25)),
    "median": lambda values: float(np.median(values)),
    "upper quartile": lambda values: float(np.quantile(values, 0.75)),
}
"""Over all validation images of the first seed's checkpoint."""

ORACLE, STATIC = "oracle", "shared static"
SUBJECT: Final = "TAP-F, or TAP-J where the scale has no TAP-F; checkpoint of the first seed at the main keep rate."


def results_of(evidence: Evidence, task: str) -> ControlResults | None:
    """The controls of TAP-F's checkpoints, which the paper shows; of TAP-J's where there are none."""
    return evidence.controls(task, TAP_F) or evidence.controls(task, TAP)


def summaries(evidence: Evidence, name: str, metric: str, unit: float = 1.0) -> Iterator[dict[str, Any]]:
    """Lines of every summary of shares or scales at every block of every task.

    Args:
        evidence: the results.
        name: `shares` or `scales`.
        metric: how the lines call it.
        unit: factor of the values.
    """
    for task in evidence.settings.tasks:
        results = results_of(evidence, task)
        for place, layer in enumerate(LAYERS if results is not None else ()):
            for series, statistic in SUMMARIES.items():
                assert results is not None
                value = results.register(name, place, lambda of, use=statistic: use(unit * of))
                yield from entry(value, task=task, layer=layer, series=series, metric=metric)


def fixed_schedules(evidence: Evidence) -> Iterator[dict[str, Any]]:
    """Lines of the oracle's mean and of the shared static schedule, as they were realised in whole patches."""
    for task in evidence.settings.tasks:
        results, score = results_of(evidence, task), TASKS[task].score.name
        for place, layer in enumerate(LAYERS if results is not None else ()):
            for series, control in ((ORACLE, "oracle"), (STATIC, "shared_allocation")):
                assert results is not None
                value = results.share(control, score, place)
                yield from entry(value, task=task, layer=layer, series=series, metric="share")


def spreads(axes: Axes, rows: pd.DataFrame, colour: str) -> list[pd.Series]:
    """The spread at each pruning block of one task, side by side over the block's number.

    Returns:
        What is drawn at each block, by series.
    """
    blocks = {layer: of.set_index("series")["value"] for layer, of in rows.groupby("layer")}
    for place, values in enumerate(blocks.values()):
        _spread(axes, place, values, colour)
    axes.set_xticks(range(len(blocks)), [str(layer) for layer in blocks])
    return list(blocks.values())


def _spread(axes: Axes, x: float, row: Any, colour: str) -> None:
    """Thin: mean plus and minus SD; thick: median and the quartiles."""
    axes.vlines(x, row["mean"] - row["sd"], row["mean"] + row["sd"], color=colour, linewidth=0.8, zorder=2)
    axes.vlines(x, row["lower quartile"], row["upper quartile"], color=colour, linewidth=3.0, alpha=0.55, zorder=2)
    axes.plot(x, row["median"], "_", color=colour, markersize=7, zorder=3)
    axes.plot(x, row["mean"], "o", color=colour, markersize=3, zorder=4)
