"""`fig:allocation-distributions`: how the allocation differs from image to image."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tap.paper.evidence import Evidence
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.panels import task_panels
from tap.paper.figures.points import framed, marks
from tap.paper.figures.register_data import ORACLE, STATIC, SUBJECT, fixed_schedules, spreads, summaries
from tap.paper.figures.style import COLUMN_WIDTH, TASKS

READS = "controls"

_WORDS = (
    f"{SUBJECT} Share of the removal budget at each pruning block over all validation images. Thin: mean plus and "
    "minus SD over images; thick: quartiles, with the median as a dash and the mean as a dot. Diamonds: mean of the "
    "calibration-grid oracle's winners; crosses: the schedule that all tasks share. Every image keeps the same number "
    "of patches in the end.",
)


def data(evidence: Evidence) -> pd.DataFrame:
    """Summaries by task and block, and the schedules beside them."""
    return framed([*summaries(evidence, "shares", "share", 100.0), *fixed_schedules(evidence)])


def draw(frame: pd.DataFrame) -> Figure:
    """A panel per task."""
    figure = Figure(figsize=(COLUMN_WIDTH, 1.8), layout="constrained")
    titles = {task: look.name for task, look in TASKS.items()}
    for task, axes, rows in task_panels(figure, frame, titles, sharey=True):
        colour = TASKS[task].colour
        for place, values in enumerate(spreads(axes, rows, colour)):
            axes.plot(place + 0.22, values.get(ORACLE), "D", color=colour, markerfacecolor="white", zorder=3)
            axes.plot(place + 0.22, values.get(STATIC), "x", color="0.4", zorder=3)
        axes.set_xlim(-0.5, rows["layer"].nunique() - 0.3)
        axes.set_xlabel("Block")
        axes.set_ylabel("Share of the budget (%)")
    return figure


FIGURE = PaperFigure(data, draw, _WORDS, note=marks)
