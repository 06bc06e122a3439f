"""Panels that figures are put together from: those of probes, and a panel per task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator

from tap.paper.figures.style import CRITERIA, OTHERS, RANDOM, Look

_EDGE: Final[dict[str, Any]] = {"markeredgecolor": "white", "markeredgewidth": 0.4}


def drops_by_block(axes: Axes, frame: pd.DataFrame) -> None:
    """One curve per criterion: the highlighted ones in colour, the rest in grey behind them.

    Attention and coverage, which are compared, have bands for their intervals; more bands would hide one another.
    """
    others = frame[~frame["series"].isin(CRITERIA)]
    if len(others):
        thin = {"color": OTHERS.colour, "linewidth": 0.7, "zorder": 1}
        sns.lineplot(others, x="layer", y="value", units="series", estimator=None, ax=axes, **thin)
    for name, look in CRITERIA.items():
        curve(axes, frame[frame["series"] == name], look, band=name != RANDOM)
    blocks(axes, frame["layer"])
    axes.axhline(0.0, color="0.4", linewidth=0.6, zorder=0)


def curve(axes: Axes, frame: pd.DataFrame, look: Look, band: bool = True) -> None:
    """One highlighted curve over blocks, with a band for its interval."""
    if frame.empty:
        return
    frame = frame.sort_values("layer").assign(name=look.name)
    if band and frame["low"].notna().all():
        around = (frame["layer"], frame["low"], frame["high"])
        axes.fill_between(*around, color=look.colour, alpha=0.12, linewidth=0, zorder=2)
    sns.lineplot(
        frame,
        x="layer",
        y="value",
        style="name",
        dashes={look.name: look.dashes},
        markers={look.name: look.marker},
        color=look.colour,
        **_EDGE,
        ax=axes,
        legend=False,
        estimator=None,
        zorder=3,
    )


def blocks(axes: Axes, layers: pd.Series) -> None:
    """An axis of block numbers, all of them where there is room."""
    numbers = sorted({int(layer) for layer in layers})
    shown = numbers if len(numbers) <= 6 else [number for number in numbers if number % 3 == 0]
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("Block")


def criteria_handles(points: bool = False) -> list[Line2D]:
    """Legend of the highlighted criteria and of the rest.

    Args:
        points: whether criteria are points in some panel, where the rest has markers too.
    """
    marker = OTHERS.marker if points else ""
    others = Line2D([], [], color=OTHERS.colour, linewidth=0.8, marker=marker, label=OTHERS.name, **_EDGE)
    return [*(handle(look) for look in CRITERIA.values()), others]


def handle(look: Look) -> Line2D:
    """The legend's sample of a series."""
    style = (0, look.dashes) if look.dashes else "-"
    return Line2D([], [], color=look.colour, marker=look.marker, linestyle=style, label=look.name, **_EDGE)


def missing(axes: Axes, text: str) -> None:
    """Says inside a panel what has not been measured."""
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, f"{text}\nnot measured", ha="center", va="center", transform=axes.transAxes, color="0.4")


def task_panels(
    figure: Figure, frame: pd.DataFrame, titles: Mapping[str, str], sharey: bool = False
) -> Iterator[tuple[str, Axes, pd.DataFrame]]:
    """A panel per task, side by side, under its title; one without lines says that nothing has been measured.

    Args:
        figure: where.
        frame: with a column `task`.
        titles: of the tasks to show, in order.
        sharey: whether all have one scale.

    Yields:
        The task, its panel and its lines, where it has some.
    """
    panels = figure.subplots(1, len(titles), sharey=sharey, squeeze=False)[0]
    for axes, (task, title) in zip(panels, titles.items(), strict=True):
        axes.set_title(title, pad=3)
        rows = frame[frame["task"] == task]
        if rows.empty:
            missing(axes, title)
        else:
            yield task, axes, rows


def mark(axes: Axes, letter: str) -> None:
    """The panel's letter at its upper left corner."""
    axes.set_title(f"({letter})", loc="left", fontweight="bold", pad=3)
