"""`fig:tradeoff`: what is lost against no pruning, and how much faster the encoder is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from tap.config.methods import DENSE, TAP, TAP_F
from tap.paper.evidence import Evidence
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.panels import task_panels
from tap.paper.figures.points import METHODS, OTHER, bar, entry, framed, marks
from tap.paper.figures.style import TEXT_WIDTH
from tap.task_facts import TASKS

READS = "rates"

_WORDS = (
    "Change from no pruning in points (higher is better) against the encoder's throughput as a "
    "multiple of the dense encoder's on the same kernel in the same process. All methods at the main keep rate; TAP-J "
    "at every keep rate, joined by a line; the open symbol is TAP-F. Grey: methods that are not named.",
    "Bars: 95 % percentile intervals of a paired bootstrap over the validation images. Speeds are those of "
    "`tap profile`; what no profile of a machine has is not drawn.",
)


def data(evidence: Evidence) -> pd.DataFrame:
    """A line for each method, rate and task."""
    return framed(_lines(evidence))


def _lines(evidence: Evidence) -> Iterator[dict[str, Any]]:
    for task in evidence.settings.tasks:
        measured, metric = evidence.measured(task), TASKS[task].score
        for method in (name for name in measured.methods if name != DENSE):
            rates = evidence.settings.keep_rates if method in (TAP, TAP_F) else (evidence.settings.main_rate,)
            for rate in rates:
                selector = f"{method}@{rate}"
                speed = evidence.speed(task, selector, "encoder_speedup")
                lost = evidence.difference(task, selector, DENSE, metric.name)
                if speed is None or lost is None:
                    continue
                about = {"task": task, "series": method, "rate": rate, "metric": metric.name, "x": speed.mean}
                yield from entry(lost, **about)


def draw(frame: pd.DataFrame) -> Figure:
    """A panel per task, from what `data` gives."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.3), layout="constrained")
    tasks = list(dict.fromkeys([*TASKS, *frame["task"]]))
    for task, axes, rows in task_panels(figure, frame, {task: TASKS[task].title for task in tasks}):
        for row in rows.itertuples():
            look = METHODS.get(row.series, OTHER)
            face = "white" if row.series == TAP_F else look.colour
            bar(axes, row.x, row, look.colour, zorder=2)
            axes.plot(row.x, row.value, look.marker, color=look.colour, markerfacecolor=face, markersize=4, zorder=3)
        line = rows[rows["series"] == TAP].sort_values("rate")
        axes.plot(line["x"], line["value"], color=METHODS[TAP].colour, linewidth=0.9, zorder=1)
        axes.axhline(0.0, color="0.4", linewidth=0.6, zorder=0)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("Encoder speed-up")
        axes.set_ylabel(f"Change in {TASKS[task].score.title} (pp)")
    samples = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle="", label=look.name,
               markerfacecolor="white" if name == TAP_F else look.colour)
        for name, look in {**METHODS, "": OTHER}.items()
    ]  # fmt: skip
    figure.legend(handles=samples, loc="outside lower center", ncols=len(samples), columnspacing=1.0)
    return figure


FIGURE = PaperFigure(data, draw, _WORDS, note=marks)
