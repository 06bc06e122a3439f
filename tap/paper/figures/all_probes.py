"""`fig:all-probes`: every criterion at every eligible block of every task."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tap.paper.figures.panels import criteria_handles, drops_by_block, missing
from tap.paper.figures.probe_data import TASKS
from tap.paper.figures.style import TEXT_WIDTH

_TITLES = {"cls": "Classification", "seg": "Segmentation", "det": "Detection"}
_SCORES = {"cls": "top-1", "seg": "mIoU", "det": "box AP"}


def draw(frame: pd.DataFrame) -> Figure:
    """One panel per task.

    Args:
        frame: what `tap.paper.figures.probe_data.all_probes` gives.
    """
    figure = Figure(figsize=(TEXT_WIDTH, 2.15), layout="constrained")
    panels = figure.subplots(1, len(TASKS))
    for axes, task in zip(panels, TASKS, strict=True):
        rows = frame[frame["task"] == task]
        axes.set_title(_TITLES[task], pad=3)
        if rows.empty:
            missing(axes, _TITLES[task])
            continue
        drops_by_block(axes, rows)
        axes.set_ylabel(f"Drop in {_SCORES[task]} (pp)")
    figure.legend(handles=criteria_handles(), loc="outside lower center", ncols=4, handlelength=2.4, columnspacing=1.6)
    return figure
