"""The three main tables, `tab_seg`, `tab_cls` and `tab_det`, in the paper's layout.

Row order, names, midrules and daggers come from the reported table; every number comes from the runs. A cell that has
not been measured prints as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tap.config.methods import DENSE
from tap.paper.measured import Measured, Value
from tap.paper.reported import ReportedTable, Row, load_reported
from tap.paper.tables import latex
from tap.paper.tables.caption import main_caption

ADDED, ADDED_TRAINING, PARAMETERS = "parameters_added", "parameters_added_training", "parameters"
TOKENS = ("final_tokens_mean", "final_tokens_sd")

# No pruning and the frozen base are not among what the paper sets in bold: "the best fully fine-tuned result".
BOLD_REGIME = "full"

# Random has no readout of its own either, although the paper gives it no dagger.
UNMARKED_COMMON_RECOVERY = ("random",)


@dataclass(frozen=True)
class ScoreColumn:
    """A score with its change from no pruning."""

    metric: str
    head: str


@dataclass(frozen=True)
class ThroughputColumn:
    """Images per second with the ratio to the dense model of the same process."""

    metric: str
    ratio: str
    head: str


@dataclass(frozen=True)
class MainTable:
    """What tells one main table from another."""

    label: str
    task: str
    title: str
    scores: tuple[ScoreColumn, ...]
    throughput: tuple[ThroughputColumn, ...]
    dense_task: bool

    @property
    def reported(self) -> ReportedTable:
        """The paper's table of the same name."""
        return load_reported(self.label)

    @property
    def heads(self) -> list[str]:
        """LaTeX of the column heads."""
        scores = [rf"{column.head} ($\Delta$)" for column in self.scores]
        throughput = [rf"{column.head} ($\times$)" for column in self.throughput]
        return ["Method", "Size/add.", *scores, *throughput]


_ENCODER = ("encoder_images_per_second", "encoder_speedup")
_FULL = ("full_images_per_second", "full_speedup")

MAIN_TABLES = {
    "tab_seg": MainTable(
        "tab:seg",
        "seg",
        "Semantic segmentation",
        (ScoreColumn("miou", "mIoU"),),
        (ThroughputColumn(*_ENCODER, "im/s"),),
        dense_task=True,
    ),
    "tab_cls": MainTable(
        "tab:cls",
        "cls",
        "Image classification",
        (ScoreColumn("top1", "Top-1"),),
        (ThroughputColumn(*_ENCODER, "im/s"),),
        dense_task=False,
    ),
    "tab_det": MainTable(
        "tab:det",
        "det",
        "Object detection and instance segmentation",
        (ScoreColumn("box_ap", r"AP$^{\mathrm{b}}$"), ScoreColumn("mask_ap", r"AP$^{\mathrm{m}}$")),
        (ThroughputColumn(*_ENCODER, "enc. im/s"), ThroughputColumn(*_FULL, "full im/s")),
        dense_task=True,
    ),
}


@dataclass(frozen=True)
class Cell:
    """One measured number of the table.

    Attributes:
        row: key of the row (the reducer's name).
        label: what the table prints for the row.
        column: key of the number: a metric, or a metric with ``_delta``.
        unit: unit of the number.
        value: the number; None if it was not measured.
    """

    row: str
    label: str
    column: str
    unit: str
    value: Value | None


def cells(table: MainTable, measured: Measured) -> list[Cell]:
    """Every number of the table, row by row, the missing ones too.

    What a method adds in training, and realised token counts, are for the CSV alone.
    """
    found = []
    for row in table.reported.rows:
        size = PARAMETERS if row.key == DENSE else ADDED
        found.append(Cell(row.key, row.label, "size", "parameters", measured.value(row.key, size)))
        for score in table.scores:
            found.append(Cell(row.key, row.label, score.metric, "percent", measured.value(row.key, score.metric)))
            if row.key != DENSE:
                change = measured.difference(row.key, score.metric)
                found.append(Cell(row.key, row.label, f"{score.metric}_delta", "points", change))
        for column in table.throughput:
            found.append(Cell(row.key, row.label, column.metric, "images/s", measured.value(row.key, column.metric)))
            found.append(Cell(row.key, row.label, column.ratio, "ratio", measured.value(row.key, column.ratio)))
        if row.key != DENSE:
            added = measured.value(row.key, ADDED_TRAINING)
            found.append(Cell(row.key, row.label, "size_training", "parameters", added))
        found += [Cell(row.key, row.label, name, "patches", measured.value(row.key, name)) for name in TOKENS]
    score = table.scores[0].metric
    return found + [Cell("floor", name, score, "percent", value) for name, value in measured.floors().items()]


def tabular(table: MainTable, measured: Measured, scale: str, numbers: Sequence[Cell]) -> latex.Tabular:
    """The typeset table."""
    values = {(cell.row, cell.column): cell.value for cell in numbers}
    best = {score.metric: _best(table.reported, values, score.metric) for score in table.scores}
    groups: list[list[list[str]]] = []
    for row in table.reported.rows:
        while len(groups) <= row.group:
            groups.append([])
        groups[row.group].append(_row(table, row, values, best))
    name = table.label.replace(":", "_").replace("-", "_")
    return latex.Tabular(
        label=table.label,
        caption=main_caption(table.title, measured, [row.key for row in table.reported.rows], scale, name),
        heads=table.heads,
        groups=groups,
        origin=f"Written by the workflow from the runs that {name}.csv lists, scale {scale}. Do not edit.",
        tight=len(table.heads) > 4,
    )


def _row(table: MainTable, row: Row, values: dict, best: dict[str, str | None]) -> list[str]:
    marked = table.dense_task and (row.dagger or row.key in UNMARKED_COMMON_RECOVERY)
    parts = [latex.escape(row.label) + (latex.DAGGER if marked else "")]
    size = values[row.key, "size"]
    prefix = "" if row.key == DENSE else "+"
    parts.append(latex.MISSING if size is None else prefix + latex.count(size.mean))
    for score in table.scores:
        change = values.get((row.key, f"{score.metric}_delta"))
        top = best[score.metric] if row.regime == BOLD_REGIME else None
        parts.append(_score(values[row.key, score.metric], change, top))
    for column in table.throughput:
        parts.append(_throughput(values[row.key, column.metric], values[row.key, column.ratio]))
    return parts


def _score(value: Value | None, change: Value | None, best: str | None) -> str:
    if value is None:
        return latex.MISSING
    text = latex.score(value.mean)
    text = latex.bold(text) if text == best else text
    return text if change is None else f"{text} ({latex.signed(change.mean)})"


def _throughput(value: Value | None, multiplier: Value | None) -> str:
    if value is None:
        return latex.MISSING
    return latex.rate(value.mean) + ("" if multiplier is None else f" ({latex.ratio(multiplier.mean)})")


def _best(reported: ReportedTable, values: dict, metric: str) -> str | None:
    """The best fully fine-tuned result as it prints; every row that prints the same is as good."""
    scores = [values[row.key, metric] for row in reported.rows if row.regime == BOLD_REGIME]
    measured = [value.mean for value in scores if value is not None]
    return latex.score(max(measured)) if measured else None
