"""`fig:qual`: one image of each task under the methods that the paper compares, and what each predicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tap.paper.evidence import Evidence
from tap.paper.figures.figure import PaperFigure
from tap.paper.figures.panels import missing
from tap.paper.figures.points import METHODS, marks
from tap.paper.figures.style import TEXT_WIDTH
from tap.plan.shown_runs import PICTURED
from tap.studies.pictured import Pictured
from tap.task_facts import TASKS
from tap.tasks.view import View, bytes_of, darkened

READS = "pictures"

_COLUMNS: Final = ("task", "image", "series", "part", "kept", "patches", "words", "runs", "picture", "boxes", "colours")
_PICTURES: Final = ("picture", "boxes", "colours")
_ORIGINAL: Final = "image"
_SHOWN: Final = (_ORIGINAL, *PICTURED)
"""What is shown, from left to right."""
_LINES: Final = {
    "image": "kept patches", "kept": "kept patches", "label": "label, prediction", "prediction": "label, prediction",
}  # fmt: skip
"""The line in which each part stands."""
_SIDE: Final = 1.17
"""Height of a line of panels in inches."""
_WORDS: Final = (
    "One validation image of each task under four trained methods at the main keep rate, in one pass of each. Upper "
    "lines: the image, and the patches that reach the last block; removed ones are darkened. Lower lines: the label, "
    "and what each method predicts. Detections that score at least 0.3 are shown.",
    "Of up to six images spread over the validation split the one is shown on which there is most to see by its label "
    "alone: most pixels beside the commonest class, most objects; in classification the first. Methods have no say.",
)


def data(evidence: Evidence) -> pd.DataFrame:
    """A line for each panel."""
    found = ((task, evidence.pictured(task)) for task in evidence.settings.tasks)
    lines = [line for task, pictured in found if pictured is not None for line in _lines(task, pictured)]
    return pd.DataFrame(lines, columns=list(_COLUMNS))


def _lines(task: str, pictured: Pictured) -> Iterator[dict[str, Any]]:
    common = {"task": task, "image": pictured.number}
    whole = {"series": _ORIGINAL, "runs": ""}
    yield {**common, **whole, "part": "image", "picture": pictured.pixels}
    if pictured.truth is not None:
        yield {**common, **whole, "part": "label", **_seen(pictured.truth)}
    for one in pictured.methods:
        of = {"series": one.method, "runs": one.run}
        picture = bytes_of(darkened(pictured.pixels / 255, one.kept, pictured.patch))
        count = {"kept": int(one.kept.sum()), "patches": one.kept.size}
        yield {**common, **of, "part": "kept", **count, "picture": picture}
        if one.says is not None:
            yield {**common, **of, "part": "prediction", **_seen(one.says)}


def _seen(view: View) -> dict[str, Any]:
    boxes = {"boxes": view.boxes, "colours": view.colours} if len(view.boxes) else {}
    return {"words": view.words, "picture": view.picture, **boxes}


def draw(frame: pd.DataFrame) -> Figure:
    """Two lines of panels per task, a column for the image itself and one for each method."""
    lines = list(frame.groupby(["task", frame["part"].map(_LINES)], sort=False))
    width = min(0.4 + _SIDE * len(_SHOWN), TEXT_WIDTH)
    figure = Figure(figsize=(width, 0.25 + _SIDE * max(len(lines), 1)), layout="constrained")
    if not lines:
        missing(figure.subplots(), "kept patches")
        return figure
    panels = figure.subplots(len(lines), len(_SHOWN), squeeze=False)
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.01, hspace=0.01)  # type: ignore[union-attr]
    for number, (((task, said), rows), line) in enumerate(zip(lines, panels, strict=True)):
        of = {row.series: row for row in rows.itertuples()}
        for name, axes in zip(_SHOWN, line, strict=True):
            axes.set(xticks=[], yticks=[])
            if number == 0:
                axes.set_title(METHODS[name].name if name in METHODS else "Image", pad=3)
            if name in of:
                _panel(axes, of[name])
            else:
                missing(axes, "")
        line[0].set_ylabel(f"{TASKS[task].title}\n{said}", fontsize=7)
    return figure


def _panel(axes: Axes, row: Any) -> None:
    axes.imshow(row.picture, interpolation="nearest")
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
    if isinstance(row.boxes, np.ndarray):
        for (left, top, right, bottom), colour in zip(row.boxes, row.colours, strict=True):
            place = (left - 0.5, top - 0.5)
            axes.add_patch(Rectangle(place, right - left, bottom - top, fill=False, edgecolor=colour, linewidth=0.6))
    words = row.words if isinstance(row.words, str) else ""
    if not pd.isna(row.kept):
        words = f"{int(row.kept)} of {int(row.patches)}"
    axes.set_xlabel(words, fontsize=6, labelpad=1.5)


def _note(evidence: Evidence, frame: pd.DataFrame) -> str:
    """Which images are shown, and which registers did not learn."""
    images = frame.drop_duplicates("task")
    shown = [f"{row.image} in {TASKS[row.task].title.lower()}" for row in images.itertuples()]
    said = [f"Images, by their number in the data set: {', '.join(shown)}."] if shown else []
    return " ".join([*said, marks(evidence, frame)]).strip()


FIGURE = PaperFigure(data, draw, _WORDS, pictures=_PICTURES, note=_note)
