"""`tab:register-distributions`: removal shares and recovery scales over all validation images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tap.paper.evidence import Evidence
from tap.paper.reported import Row
from tap.paper.statistics import Array
from tap.paper.tables.control_rows import LAYERS, controlled
from tap.paper.tables.table import PLUS_MINUS, Cells, Content, Head, Table, known
from tap.task_facts import TASKS

READS = "controls"


def _iqr(values: Array) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low)


STATISTICS: dict[str, Callable[[Array], float]] = {
    "": lambda values: float(np.mean(values)),
    "_sd": lambda values: float(np.std(values)),
    "_median": lambda values: float(np.median(values)),
    "_iqr": _iqr,
}
"""By the end of the column's key; the SD is that of all images of the split, which are no sample."""


def cells(evidence: Evidence) -> Cells:
    """Mean, SD, median and IQR at every pruning block."""
    found: dict[tuple[str, str], Content | None] = {}
    for task, behind, results, _ in controlled(evidence, tuple(TASKS)):
        for place, layer in enumerate(LAYERS):
            for end, statistic in STATISTICS.items():
                row = f"{task}_{layer}{behind}"
                found[row, f"share{end}"] = results.register("shares", place, lambda of, use=statistic: use(100 * of))
                found[row, f"scale{end}"] = results.register("scales", place, statistic)
    return known(found)


def _plain(row: str, number: float) -> str:
    """A recovery scale: a ratio of the offset, not a multiple of anything else in the row."""
    return f"{number:.2f}"


def row(key: str) -> Row:
    """Named as the paper names its rows."""
    own, _, behind = key.partition("@")
    return Row(key, own.replace("_", " ").title() + (", TAP-J" if behind else ""))


TABLE = Table(
    "Removal shares (percent) and recovery scales over all validation images at the main keep rate, first seed, TAP-F,",
    (
        Head(r"Share, mean $\pm$ SD", ("share", "share_sd"), PLUS_MINUS),
        Head("Med.", ("share_median",)),
        Head("IQR", ("share_iqr",)),
        Head(r"Scale, mean $\pm$ SD", ("scale", "scale_sd"), PLUS_MINUS, form=_plain),
        Head("Med.", ("scale_median",), form=_plain),
        Head("IQR", ("scale_iqr",), form=_plain),
    ),
    cells,
    row=row,
)
