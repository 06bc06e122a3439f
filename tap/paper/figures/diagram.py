"""Drawings of boxes and arrows: a line of the figure's table is a box, or an arrow between two boxes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

_COLUMNS: Final = ("name", "text", "x", "y", "width", "height", "fill", "start", "end", "style", "bend")
_PAD: Final = 0.04
_LINES: Final = {"solid": "-", "dashed": (0, (4, 2)), "dotted": (0, (1, 1.5))}


@dataclass(frozen=True)
class Box:
    """A box.

    Attributes:
        name: how arrows call it.
        text: what stands in it; may have formulas between dollar signs.
        x, y: its centre, in units of the drawing; `y` grows upwards.
        width, height: its size in the same units.
        fill: colour inside.
        style: ``solid``, ``dashed`` or ``dotted`` edge, or ``none``: text without an edge.
    """

    name: str
    text: str
    x: float
    y: float
    width: float = 1.5
    height: float = 0.6
    fill: str = "#FFFFFF"
    style: str = "solid"


@dataclass(frozen=True)
class Arrow:
    """An arrow from one box to another.

    Attributes:
        start, end: names of the boxes.
        text: what stands beside its middle.
        style: ``solid``, ``dashed`` or ``dotted``.
        bend: how far it is bent, as a share of its length; to the right of its way above zero.
    """

    start: str
    end: str
    text: str = ""
    style: str = "solid"
    bend: float = 0.0


def elements(boxes: Iterable[Box], arrows: Iterable[Arrow]) -> pd.DataFrame:
    """The table of a drawing, boxes first; what an element does not have is empty.

    Raises:
        ValueError: two boxes have one name, or an arrow starts or ends at none.
    """
    boxes, arrows = list(boxes), list(arrows)
    names = [box.name for box in boxes]
    unknown = {end for arrow in arrows for end in (arrow.start, arrow.end)} - set(names)
    if unknown or len(set(names)) < len(names):
        raise ValueError(f"boxes {names}: each needs a name of its own, and arrows know no other; unknown: {unknown}")
    return pd.DataFrame([asdict(element) for element in (*boxes, *arrows)], columns=list(_COLUMNS))


def drawing(frame: pd.DataFrame, width: float) -> Figure:
    """The drawing of a table of elements.

    Args:
        frame: as `elements` gives it.
        width: of the figure, in inches; its height follows.
    """
    is_box = frame["name"].notna()
    boxes, arrows = frame[is_box], frame[~is_box]
    left, right = (boxes["x"] - boxes["width"] / 2).min(), (boxes["x"] + boxes["width"] / 2).max()
    low, high = (boxes["y"] - boxes["height"] / 2).min(), (boxes["y"] + boxes["height"] / 2).max()
    margin = 3 * _PAD
    across, up = right - left + 2 * margin, high - low + 2 * margin
    figure = Figure(figsize=(width, width * up / across))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(left - margin, right + margin)
    axes.set_ylim(low - margin, high + margin)
    axes.set_axis_off()
    patches = {row.name: _box(axes, row) for row in boxes.itertuples(index=False)}
    for row in arrows.itertuples(index=False):
        _arrow(axes, patches, row)
    return figure


def _box(axes: Axes, row: Any) -> FancyBboxPatch:
    bare = row.style == "none"
    patch = FancyBboxPatch(
        (row.x - row.width / 2 + _PAD, row.y - row.height / 2 + _PAD),
        row.width - 2 * _PAD,
        row.height - 2 * _PAD,
        boxstyle=f"round,pad={_PAD}",
        facecolor="none" if bare else row.fill,
        edgecolor="none" if bare else "0.2",
        linestyle="-" if bare else _LINES[row.style],
        linewidth=0.7,
    )
    axes.add_patch(patch)
    axes.text(row.x, row.y, row.text, ha="center", va="center", fontsize=7, linespacing=1.15)
    return patch


def _arrow(axes: Axes, patches: dict[str, FancyBboxPatch], row: Any) -> None:
    first, last = patches[row.start], patches[row.end]
    (x, y), (to_x, to_y) = (_centre(patch) for patch in (first, last))
    axes.annotate(
        "",
        xy=(to_x, to_y),
        xytext=(x, y),
        arrowprops={
            "arrowstyle": "-|>",
            "mutation_scale": 6,
            "linewidth": 0.7,
            "linestyle": _LINES[row.style],
            "color": "0.2",
            "shrinkA": 0,
            "shrinkB": 0,
            "patchA": first,
            "patchB": last,
            "connectionstyle": f"arc3,rad={row.bend}",
        },
    )
    if row.text:
        # The top of the arc is half as far from its chord as its control point.
        across, up = to_x - x, to_y - y
        place = ((x + to_x + row.bend * up) / 2, (y + to_y - row.bend * across) / 2)
        shown = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        axes.text(*place, row.text, ha="center", va="center", fontsize=6.5, linespacing=1.1, bbox=shown)


def _centre(patch: FancyBboxPatch) -> tuple[float, float]:
    return patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2
