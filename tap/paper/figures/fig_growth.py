"""`fig:growth`: time and memory of TAP-J beside the dense encoder against patches, batch and keep rate."""

from __future__ import annotations

from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tap.paper.evidence import Evidence
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.panels import mark
from tap.paper.figures.style import TEXT_WIDTH, Look
from tap.paper.growth import column_of, points

READS = "profiles"

_AXES: Final = ("patches", "batch", "keep rate")
_NUMBERS: Final = {"time": ("ms", "dense_ms"), "memory": ("peak_mib", "dense_peak_mib")}
_LABELS: Final = {"time": "ms per image", "memory": "Peak, MiB"}
_SIDES: Final = {"TAP-J": Look("TAP-J", "#0072B2", "o", ""), "dense": Look("no pruning", "#D55E00", "s", (4, 1.5))}
_WORDS = (
    "Time per image (above) and peak memory of a pass without weights (below) against patches of an image, images of a "
    "pass and keep rate; the other two stay as `tab_growth` lists them. The encoder attends globally and its grid is "
    "read after four blocks, so that TAP-J's pass has matching and reconstruction. Random weights, the printed split.",
)


def data(evidence: Evidence) -> pd.DataFrame:
    """A line for each side, size and quantity."""
    profile = evidence.profile("growth", evidence.profiled_shapes)
    lines = [
        {
            "axis": point["axis"],
            "quantity": quantity,
            "series": side,
            "x": point[column_of(point["axis"])],
            "value": point[name],
            **{size: point[size] for size in ("patches", "batch", "rate")},
            "runs": "" if profile is None else profile.id,
        }
        for point in points(profile).values()
        for quantity, names in _NUMBERS.items()
        for side, name in zip(_SIDES, names, strict=True)
        if name in point
    ]
    return pd.DataFrame(lines)


def draw(frame: pd.DataFrame) -> Figure:
    """Two rows of three panels.

    Args:
        frame: what `data` gives.
    """
    figure = Figure(figsize=(TEXT_WIDTH, 3.2), layout="constrained")
    for row, (quantity, panels) in enumerate(zip(_NUMBERS, figure.subplots(2, 3), strict=True)):
        for column, (axis, axes) in enumerate(zip(_AXES, panels, strict=True)):
            mark(axes, "abcdef"[3 * row + column])
            _panel(axes, frame[(frame["axis"] == axis) & (frame["quantity"] == quantity)], axis, quantity)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _panel(axes: Axes, frame: pd.DataFrame, axis: str, quantity: str) -> None:
    for side, look in _SIDES.items():
        line = frame[frame["series"] == side].sort_values("x")
        style = (0, look.dashes) if look.dashes else "-"
        axes.plot(line["x"], line["value"], color=look.colour, marker=look.marker, linestyle=style, label=look.name)
    if axis != "keep rate":
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=10)
        axes.set_xticks(sorted(set(frame["x"])), [f"{size:g}" for size in sorted(set(frame["x"]))])
    axes.set_xlabel(axis.capitalize())
    axes.set_ylabel(_LABELS[quantity])


FIGURE = PaperFigure(data, draw, _WORDS, ())
