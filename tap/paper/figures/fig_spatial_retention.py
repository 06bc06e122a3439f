"""`fig:spatial-retention`: which regions of an image the patches that are kept cover."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure

from tap.config.methods import TAP
from tap.paper.evidence import Evidence
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.panels import task_panels
from tap.paper.figures.points import METHODS, OTHER, entry, framed, marks
from tap.paper.figures.style import COLUMN_WIDTH, TASKS
from tap.paper.tables.tab_spatial_statistics import COLUMNS
from tap.paper.tables.tab_spatial_statistics import METHODS as SHOWN

READS = "rates"

_NAMES: Final = {
    "boundary": "boundary",
    "class": "class",
    "box_interior": "box interior",
    "small_object": "small object",
}
_COVERAGE: Final = ("class", "small_object")
_WORDS = (
    "Spatial retention at the main keep rate in percent, as the table of the same name defines it. Filled circles: "
    "boundary or box-interior patches that are kept; open squares: classes or small objects that are covered.",
    "Bars: 95 % percentile intervals of a bootstrap over the validation images, whose resamples all methods share. The "
    "CSV file also has TAP-J minus every other method with its paired interval (series `tap - cropr` and so on).",
)


def data(evidence: Evidence) -> pd.DataFrame:
    """A line for each method and statistic, and for each difference of TAP-J from another method."""
    return framed(_lines(evidence))


def _lines(evidence: Evidence) -> Iterator[dict[str, Any]]:
    for column, (task, metric) in COLUMNS.items():
        for method in SHOWN:
            value = evidence.estimated(task, method, metric)
            yield from entry(value, task=task, series=method, metric=column)
            if method != TAP:
                change = evidence.difference(task, TAP, method, metric)
                yield from entry(change, task=task, series=f"{TAP} - {method}", metric=column)


def draw(frame: pd.DataFrame) -> Figure:
    """A panel per dense task, methods from top to bottom."""
    figure = Figure(figsize=(COLUMN_WIDTH, 2.0), layout="constrained")
    shown = {task: [column for column, (of, _) in COLUMNS.items() if of == task] for task in ("seg", "det")}
    titles = {task: TASKS[task].name for task in shown}
    for task, axes, rows in task_panels(figure, frame[frame["series"].isin(SHOWN)], titles, sharey=True):
        colour = TASKS[task].colour
        for row in rows.itertuples():
            place, cover = SHOWN.index(row.series), row.metric in _COVERAGE
            if not pd.isna(row.low):
                axes.hlines(place, row.low, row.high, color=colour, linewidth=0.8, zorder=2)
            face = "white" if cover else colour
            axes.plot(row.value, place, "s" if cover else "o", color=colour, markerfacecolor=face, zorder=3)
        axes.set_yticks(range(len(SHOWN)), [METHODS.get(method, OTHER).name for method in SHOWN])
        axes.set_ylim(len(SHOWN) - 0.5, -0.5)
        axes.set_xlabel(f"{' / '.join(_NAMES[column] for column in shown[task])} (%)")
    return figure


FIGURE = PaperFigure(data, draw, _WORDS, note=marks)
