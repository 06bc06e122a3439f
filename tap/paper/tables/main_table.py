"""The main table of a task, such as `tab_cls`: scores, sizes and throughput of its methods at the main keep rate.

Rows are the paper's and every further method that was measured, and the floors of a dense task. A cell that has not
been measured prints as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tap.config.methods import COMMON_RECOVERY, DENSE, SCORES
from tap.paper.evidence import Evidence
from tap.paper.measured import FLOORS, Value
from tap.paper.reported import Column, Row
from tap.paper.tables import latex
from tap.paper.tables.caption import floors, main_caption
from tap.paper.tables.table import BEHIND, Cells, Head, Table, known

ADDED, ADDED_TRAINING, PARAMETERS = "parameters_added", "parameters_added_training", "parameters"
TOKENS = ("final_tokens_mean", "final_tokens_sd")

_TITLES = {
    "cls": "Image classification",
    "seg": "Semantic segmentation",
    "det": "Object detection and instance segmentation",
}
_HEADS = {"top1": "Top-1", "miou": "mIoU", "box_ap": r"AP$^{\mathrm{b}}$", "mask_ap": r"AP$^{\mathrm{m}}$"}
_THROUGHPUT = {
    "encoder": ("encoder_images_per_second", "encoder_speedup"),
    "full": ("full_images_per_second", "full_speedup"),
}
_FULL_TOO = ("det",)
"""Tasks whose table has the throughput of the full model beside that of the encoder."""
_DENSE_TASKS = ("seg", "det")


def main_table(task: str) -> Table:
    """The main table of a task."""
    speeds = {"encoder": r"enc. im/s ($\times$)", "full": r"full im/s ($\times$)"}
    speeds = speeds if task in _FULL_TOO else {"encoder": r"im/s ($\times$)"}
    scores = SCORES[task]
    columns = [Column("size", "Size/add.", "parameters")]
    for score in scores:
        columns += [Column(score, score, "percent"), Column(f"{score}_delta", f"{score} (\u0394)", "points")]
    for speed in speeds:
        columns += [Column(key, key, unit) for key, unit in zip(_THROUGHPUT[speed], ("images/s", "ratio"), strict=True)]
    columns += [Column("size_training", "Size/add. in training", "parameters")]
    columns += [Column(name, name, "patches") for name in TOKENS]
    return Table(
        title=_TITLES.get(task, task),
        first="Method",
        heads=(
            Head("Size/add.", ("size",), form=_size),
            *(Head(rf"{_HEADS.get(score, score)} ($\Delta$)", (score, f"{score}_delta"), BEHIND) for score in scores),
            *(Head(printed, _THROUGHPUT[speed], BEHIND) for speed, printed in speeds.items()),
        ),
        cells=partial(_cells, task, list(speeds)),
        columns=tuple(columns),
        row=_row,
        mark=partial(_mark, task),
        note=partial(_note, task),
        caption=partial(_caption, task),
        judged=scores,
        task=task,
    )


def _cells(task: str, speeds: Sequence[str], evidence: Evidence) -> Cells:
    """Every number of the rows. What a method adds in training, and realised token counts, are for the CSV alone."""
    measured = evidence.measured(task)
    cells: dict[tuple[str, str], Value | None] = {}
    for method in measured.methods:
        cells[method, "size"] = measured.value(method, PARAMETERS if method == DENSE else ADDED)
        for score in SCORES[task]:
            cells[method, score] = measured.value(method, score)
            cells[method, f"{score}_delta"] = None if method == DENSE else measured.difference(method, score)
        for metric in (name for speed in speeds for name in _THROUGHPUT[speed]):
            cells[method, metric] = measured.value(method, metric)
        cells[method, "size_training"] = None if method == DENSE else measured.value(method, ADDED_TRAINING)
        cells |= {(method, name): measured.value(method, name) for name in TOKENS}
    return known(cells | {(key, SCORES[task][0]): value for key, value in measured.floors().items()})


def _row(key: str) -> Row:
    """A method that the paper does not have is fully fine-tuned; its name is its label."""
    return Row(key, f"Floor: {FLOORS[key]}", regime="floor") if key in FLOORS else Row(key, key, regime="full")


def _mark(task: str, row: str) -> str:
    """The dagger of the common recovery. Random has no readout of its own either, although the paper gives it none."""
    return latex.DAGGER if task in _DENSE_TASKS and row in COMMON_RECOVERY else ""


def _size(row: str, value: float) -> str:
    return ("" if row == DENSE else "+") + latex.count(value)


def _note(task: str, evidence: Evidence) -> str:
    return " ".join(floors(evidence.measured(task)))


def _caption(task: str, evidence: Evidence, rows: Sequence[str]) -> list[str]:
    sentences = main_caption(_TITLES.get(task, task), evidence.measured(task), rows, evidence.scale, f"tab_{task}")
    marked = any(_mark(task, row) for row in rows)
    return [*sentences, *([f"{latex.DAGGER} common parameter-free recovery."] if marked else [])]
