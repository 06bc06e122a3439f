"""`fig:all-probes`: every criterion at every eligible block of every task."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tap.paper.evidence import Evidence
from tap.paper.figures.captions import UNCERTAIN, drop_words
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.panels import criteria_handles, drops_by_block, task_panels
from tap.paper.figures.probe_data import IN_PAPER, drops, framed
from tap.paper.figures.style import TEXT_WIDTH
from tap.paper.tidy_probes import LAYERS
from tap.paper.units import axis_of
from tap.task_facts import TASKS

READS = "probes"

_WORDS = (
    f"{drop_words(facts.score for facts in TASKS.values())} A panel per task: drop in "
    f"{', '.join(facts.score.title for facts in TASKS.values())} by block, a curve per criterion; grey: the criteria "
    "that are not named.",
    f"Bands (attention and coverage alone, since more would hide one another): {UNCERTAIN}",
)


def data(evidence: Evidence) -> pd.DataFrame:
    """Drops of every criterion at every eligible block of every task."""
    probes = [probe for task in evidence.settings.tasks if (probe := evidence.probe(task, LAYERS)) is not None]
    return framed(line for probe in probes for line in drops(probe, probe.task))


def draw(frame: pd.DataFrame) -> Figure:
    """One panel per task: those of the paper, and whatever else was probed.

    Args:
        frame: what `data` gives.
    """
    figure = Figure(figsize=(TEXT_WIDTH, 2.15), layout="constrained")
    tasks = list(dict.fromkeys([*IN_PAPER, *frame["task"]]))
    for task, axes, rows in task_panels(figure, frame, {task: TASKS[task].title for task in tasks}):
        drops_by_block(axes, rows)
        axes.set_ylabel(f"Drop in {TASKS[task].score.title} ({axis_of(TASKS[task].score)})")
    figure.legend(handles=criteria_handles(), loc="outside lower center", ncols=4, handlelength=2.4, columnspacing=1.6)
    return figure


FIGURE = PaperFigure(data, draw, _WORDS, (LAYERS,))
