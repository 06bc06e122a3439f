"""`fig:sandwich`: the mean allocation with the oracle and the static schedule, and the mean recovery scale."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tap.paper.evidence import Evidence
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.panels import mark, missing
from tap.paper.figures.points import framed, marks
from tap.paper.figures.register_data import ORACLE, STATIC, SUBJECT, fixed_schedules, summaries
from tap.paper.figures.style import COLUMN_WIDTH, TASKS

READS = "controls"

_WORDS = (
    f"{SUBJECT} (a) Mean share of the removal budget at each pruning block over all validation images (filled), the "
    "mean of the calibration-grid oracle's winners (open), and the schedule that all tasks share (grey crosses). (b) "
    "Mean recovery scale by dense task; 1 gives the full offset back, 0 the stand-in alone; the dotted line is where a "
    "scale starts.",
)


def data(evidence: Evidence) -> pd.DataFrame:
    """Means by task and block, and the schedules beside them."""
    lines = [*summaries(evidence, "shares", "share", 100.0), *summaries(evidence, "scales", "scale")]
    return framed([*(line for line in lines if line["series"] == "mean"), *fixed_schedules(evidence)])


def draw(frame: pd.DataFrame) -> Figure:
    """Two panels side by side."""
    figure = Figure(figsize=(COLUMN_WIDTH, 1.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    dense = frame[frame["task"].isin(TASKS)]
    for axes, letter, metric, label in (
        (left, "a", "share", "Share of the budget (%)"),
        (right, "b", "scale", "Recovery scale"),
    ):
        mark(axes, letter)
        rows = dense[dense["metric"] == metric]
        axes.set_ylabel(label)
        if rows.empty:
            missing(axes, "Dense tasks")
            continue
        for task, look in TASKS.items():
            of = rows[rows["task"] == task].sort_values("layer")
            mean, oracle, static = (of[of["series"] == name] for name in ("mean", ORACLE, STATIC))
            axes.plot(mean["layer"], mean["value"], look.marker, color=look.colour, linestyle="-", zorder=3)
            axes.plot(oracle["layer"], oracle["value"], look.marker, color=look.colour, markerfacecolor="white",
                      linestyle=":", linewidth=0.7, zorder=2)  # fmt: skip
            axes.plot(static["layer"], static["value"], "x", color="0.5", zorder=1)
        axes.set_xticks(sorted(set(rows["layer"])))
        axes.set_xlabel("Block")
    right.set_ylim(-0.03, 1.03)
    right.axhline(0.5, color="0.5", linewidth=0.6, linestyle=":", zorder=0)
    handles = [Line2D([], [], color=look.colour, marker=look.marker, label=look.name) for look in TASKS.values()]
    handles.append(Line2D([], [], color="0.5", marker="x", linestyle="", label="shared static"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


FIGURE = PaperFigure(data, draw, _WORDS, note=marks)
