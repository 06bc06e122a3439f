"""`fig:recovery-distributions`: how the recovery scale differs from image to image."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tap.paper.evidence import Evidence
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.panels import task_panels
from tap.paper.figures.points import framed, marks
from tap.paper.figures.register_data import SUBJECT, spreads, summaries
from tap.paper.figures.style import COLUMN_WIDTH, TASKS

READS = "controls"

_WORDS = (
    f"{SUBJECT} Recovery scale at each pruning block over all validation images. Thin: mean plus and minus SD over "
    "images; thick: quartiles, with the median as a dash and the mean as a dot. Dashed: the stand-in alone (0) and the "
    "full offset (1); dotted: where a scale starts.",
)


def data(evidence: Evidence) -> pd.DataFrame:
    """Summaries by dense task and block."""
    return framed(summaries(evidence, "scales", "scale"))


def draw(frame: pd.DataFrame) -> Figure:
    """A panel per dense task."""
    figure = Figure(figsize=(COLUMN_WIDTH, 1.8), layout="constrained")
    titles = {task: look.name for task, look in TASKS.items()}
    for task, axes, rows in task_panels(figure, frame, titles, sharey=True):
        spreads(axes, rows, TASKS[task].colour)
        for height, style in ((0.0, "--"), (1.0, "--"), (0.5, ":")):
            axes.axhline(height, color="0.5", linewidth=0.6, linestyle=style, zorder=0)
        axes.set_xlim(-0.5, rows["layer"].nunique() - 0.5)
        axes.set_ylim(-0.05, 1.05)
        axes.set_xlabel("Block")
        axes.set_ylabel("Recovery scale")
    return figure


FIGURE = PaperFigure(data, draw, _WORDS, note=marks)
