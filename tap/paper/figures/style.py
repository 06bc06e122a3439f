"""How the figures look: sizes and fonts of the paper, colours that survive print and colour blindness, equal files."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import cycle
from typing import Final

import seaborn as sns
from matplotlib.figure import Figure

from tap.drawing import default_style
from tap.task_facts import DENSE_TASKS
from tap.task_facts import TASKS as TASK_FACTS

TEXT_WIDTH, COLUMN_WIDTH = 7.0, 3.3
"""Widths of the paper's text and column in inches."""


@dataclass(frozen=True)
class Look:
    """A series: name in the legend, colour, marker and dashes. Each of the last three alone tells series apart, also
    for readers who do not see red or green, and in print."""

    name: str
    colour: str
    marker: str
    dashes: tuple[float, ...] | str


RANDOM: Final = "random"
# Okabe and Ito's colours, which differ in lightness as well. Theirs for a sixth series, #CC79A7, turns to the grey of
# the other criteria where green is not seen: detection has Tol's wine instead.
CRITERIA: Final = {
    "attention_mean": Look("Attention", "#D55E00", "o", ""),
    "coverage": Look("Coverage (FPS)", "#0072B2", "s", (4, 1.5)),
    RANDOM: Look("Random", "#000000", "^", (1, 1.2)),
}
OTHERS: Final = Look("other criteria", "#B8B8B8", "X", "")
"""The rest: thin lines without markers where there are lines, markers where there are points."""
_LOOKS: Final = (
    ("#009E73", "D", (7, 1.6)),
    ("#882255", "P", (4, 1.2, 1, 1.2)),
    ("#56B4E9", "v", (2, 1.2)),
    ("#E69F00", "h", (6, 1.2, 1, 1.2, 1, 1.2)),
)
TASKS: Final = {
    task: Look(TASK_FACTS[task].title, *look) for task, look in zip(DENSE_TASKS, cycle(_LOOKS), strict=False)
}
"""Curves and bars of the dense tasks."""

_RC: Final = {
    "font.family": "STIXGeneral",  # the paper is set in Times
    "mathtext.fontset": "stix",
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.titlesize": 8.0,
    "axes.titleweight": "normal",
    "legend.fontsize": 7.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "grid.linewidth": 0.4,
    "grid.color": "0.9",
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,
    "legend.frameon": False,
    "svg.hashsalt": "tap",
}


def styled() -> AbstractContextManager[None]:
    """Context in which a figure is made and saved: `with styled(): ...`; nothing else is changed."""
    return default_style({**sns.axes_style("ticks"), **_RC, "axes.grid": True, "axes.grid.axis": "y"})


def files_of(figure: Figure) -> dict[str, bytes]:
    """The figure as PDF, PNG and SVG; without dates and versions, so that equal figures are equal files."""
    contents = {}
    for suffix, options in (
        (".pdf", {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}}),
        (".png", {"metadata": {"Software": None}, "dpi": 200}),
        (".svg", {"metadata": {"Date": None, "Creator": None}}),
    ):
        stream = io.BytesIO()
        figure.savefig(stream, format=suffix[1:], **options)
        contents[suffix] = stream.getvalue()
    return contents
