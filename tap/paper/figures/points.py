"""Figures of measured points with intervals: their CSV, their looks, and the marks that they share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes

from tap.paper.evidence import Evidence
from tap.paper.figures.style import Look
from tap.paper.learned import learning_note
from tap.paper.measured import Value

COLUMNS: Final = ("task", "series", "rate", "layer", "metric", "x", "value", "low", "high", "sd", "runs")
"""One line per drawn number: what it is of, where it is drawn, its 95 % interval over images, standard deviation over
seeds, and the ids of the runs behind it. A column that a figure does not need is empty."""

# Okabe and Ito's colours with a marker each, as in the figures of the probes.
METHODS: Final = {
    "random": Look("Random", "#000000", "^", ""),
    "attn_topk": Look("Attention", "#D55E00", "o", ""),
    "cropr": Look("Token Cropr", "#56B4E9", "s", ""),
    "static": Look("Static rule", "#E69F00", "v", ""),
    "tap_f": Look("TAP-F", "#009E73", "D", ""),
    "tap": Look("TAP-J", "#0072B2", "D", ""),
}
OTHER: Final = Look("other methods", "#B8B8B8", "X", "")


def entry(value: Value | None, **about: Any) -> list[dict[str, Any]]:
    """A line of `COLUMNS`, or none for what was not measured."""
    if value is None:
        return []
    bounds = {} if value.interval is None else {"low": value.interval.low, "high": value.interval.high}
    return [{**about, "value": value.mean, "sd": value.sd, "runs": " ".join(value.runs), **bounds}]


def framed(lines: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Lines as a table with the columns `COLUMNS`."""
    frame = pd.DataFrame(list(lines), columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(("rate", "x", "value", "low", "high", "sd"), float))


def bar(axes: Axes, x: float, row: Any, colour: str, **options: Any) -> None:
    """The interval of a line as a thin bar, where it has one."""
    if not pd.isna(row.low):
        axes.vlines(x, row.low, row.high, color=colour, linewidth=0.8, **options)


def marks(evidence: Evidence, frame: pd.DataFrame) -> str:
    """Which runs behind a figure have a register that did not learn, as a sentence."""
    return learning_note(evidence, (run for runs in frame["runs"] for run in str(runs).split()))
