"""The main table of a task, such as `tab_cls`: scores, sizes and throughput of its methods at the main keep rate.

Rows are the paper's and every further method that was measured, and the floors of a dense task. A cell that has not
been measured prints as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tap.config.methods import COMMON_RECOVERY, DENSE, METHODS
from tap.paper.evidence import Evidence
from tap.paper.measured import FLOORS, Value
from tap.paper.reported import Column, Row
from tap.paper.tables import latex
from tap.paper.tables.caption import floors, main_caption
from tap.paper.tables.table import BEHIND, Cells, Head, Table, known
from tap.paper.units import in_unit
from tap.task_facts import TASKS

ADDED, ADDED_TRAINING, PARAMETERS = "parameters_added", "parameters_added_training", "parameters"
TOKENS = ("final_tokens_mean", "final_tokens_sd")

_TITLES = {
    "cls": "Image classification",
    "seg": "Semantic segmentation",
    "det": "Object detection and instance segmentation",
}
_HEADS = {"top1": "Top-1", "box_ap": r"AP$^{\mathrm{b}}$", "mask_ap": r"AP$^{\mathrm{m}}$"}
"""LaTeX of a score's head where the paper's is not the metric's title."""
_THROUGHPUT = {
    "encoder": ("encoder_images_per_second", "encoder_speedup"),
    "full": ("full_images_per_second", "full_speedup"),
}
_FULL_TOO = ("det",)
"""Tasks whose table has the throughput of the full model beside that of the encoder."""


def main_table(task: str) -> Table:
    """The main table of a task."""
    speeds = {"encoder": r"enc. im/s ($\times$)", "full": r"full im/s ($\times$)"}
    speeds = speeds if task in _FULL_TOO else {"encoder": r"im/s ($\times$)"}
    metrics = TASKS[task].metrics
    columns = [Column("size", "Size/add.", "parameters")]
    for item in metrics:
        columns.append(Column(item.name, item.title, in_unit(item, "percent")))
        columns.append(Column(f"{item.name}_delta", f"{item.title} (\u0394)", in_unit(item, "points")))
    for speed in speeds:
        columns += [Column(key, key, unit) for key, unit in zip(_THROUGHPUT[speed], ("images/s", "ratio"), strict=True)]
    columns += [Column("size_training", "Size/add. in training", "parameters")]
    columns += [Column(name, name, "patches") for name in TOKENS]
    return Table(
        title=_title(task),
        first="Method",
        heads=(
            Head("Size/add.", ("size",), form=_size),
            *(
                Head(rf"{_HEADS.get(item.name, item.title)} ($\Delta$)", (item.name, f"{item.name}_delta"), BEHIND)
                for item in metrics
            ),
            *(Head(printed, _THROUGHPUT[speed], BEHIND) for speed, printed in speeds.items()),
        ),
        cells=partial(_cells, task, list(speeds)),
        columns=tuple(columns),
        row=_row,
        mark=partial(_mark, task),
        note=partial(_note, task),
        caption=partial(_caption, task),
        judged=tuple(item.name for item in metrics),
        lower_is_better=tuple(item.name for item in metrics if not item.higher_is_better),
        task=task,
    )


def _cells(task: str, speeds: Sequence[str], evidence: Evidence) -> Cells:
    """Every number of the rows. What a method adds in training, and realised token counts, are for the CSV alone."""
    measured = evidence.measured(task)
    cells: dict[tuple[str, str], Value | None] = {}
    for method in measured.methods:
        cells[method, "size"] = measured.value(method, PARAMETERS if method == DENSE else ADDED)
        for score in (item.name for item in TASKS[task].metrics):
            cells[method, score] = measured.value(method, score)
            cells[method, f"{score}_delta"] = None if method == DENSE else measured.difference(method, score)
        for metric in (name for speed in speeds for name in _THROUGHPUT[speed]):
            cells[method, metric] = measured.value(method, metric)
        cells[method, "size_training"] = None if method == DENSE else measured.value(method, ADDED_TRAINING)
        cells |= {(method, name): measured.value(method, name) for name in TOKENS}
    return known(cells | {(key, TASKS[task].score.name): value for key, value in measured.floors().items()})


def _row(key: str) -> Row:
    """A floor, or a method that the paper does not have: fully fine-tuned as the others, called as its file says."""
    if key in FLOORS:
        return Row(key, f"Floor: {FLOORS[key]}", regime="floor")
    return Row(key, METHODS[key].row.title if key in METHODS else key, regime=DENSE if key == DENSE else "full")


def _mark(task: str, row: str) -> str:
    """The dagger of the common recovery. Random has no readout of its own either, although the paper gives it none."""
    return latex.DAGGER if TASKS[task].dense and row in COMMON_RECOVERY else ""


def _title(task: str) -> str:
    return _TITLES.get(task, TASKS[task].title)


def _size(row: str, value: float) -> str:
    return ("" if row == DENSE else "+") + latex.count(value)


def _note(task: str, evidence: Evidence) -> str:
    return " ".join(floors(evidence.measured(task)))


def _caption(task: str, evidence: Evidence, rows: Sequence[str]) -> list[str]:
    sentences = main_caption(_title(task), evidence.measured(task), rows, evidence.scale, f"tab_{task}")
    marked = any(_mark(task, row) for row in rows)
    return [*sentences, *([f"{latex.DAGGER} common parameter-free recovery."] if marked else [])]
