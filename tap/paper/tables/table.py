"""What a table is: a function from what is measured or set to cells, and how these are laid out.

Rows and columns are those that the paper prints, and behind them whatever else the function has cells for: a row that
was measured and that the paper does not have is shown like any other and marked. A table that the paper does not have
names its columns itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from tap.paper.evidence import Evidence
from tap.paper.measured import Value
from tap.paper.reported import Column, ReportedTable, Row, load_reported, reported_path
from tap.paper.units import in_unit
from tap.task_facts import TASKS


class Status(StrEnum):
    """How a cell is known."""

    MEASURED = "measured"
    RECOMPUTED = "recomputed"
    STATED = "stated"
    MISSING = "missing"


@dataclass(frozen=True)
class Known:
    """A cell that is known without a run.

    Attributes:
        content: a number or words.
        status: `RECOMPUTED` for what code computes from settings, `STATED` for a setting itself and for text.
    """

    content: float | str
    status: Status


Content = Value | Known
Cells = Mapping[tuple[str, str], Content]
"""Cells by (row, column); what is not there is missing."""


def stated(content: float | str) -> Known:
    """A setting, or text."""
    return Known(content, Status.STATED)


def recomputed(content: float | str) -> Known:
    """What code computes from settings."""
    return Known(content, Status.RECOMPUTED)


def status_of(content: Content | None) -> Status:
    """How a cell is known."""
    if content is None:
        return Status.MISSING
    return Status.MEASURED if isinstance(content, Value) else content.status


def number_of(content: Content | None) -> float | None:
    """The number of a cell; None for words and for what is missing."""
    found = content.mean if isinstance(content, Value) else None if content is None else content.content
    return None if isinstance(found, str) else found


def text_of(content: Content | None) -> str | None:
    """The words of a cell; None for numbers and for what is missing."""
    return content.content if isinstance(content, Known) and isinstance(content.content, str) else None


BESIDE, BEHIND, PLUS_MINUS = "/", "()", r"$\pm$"


@dataclass(frozen=True)
class Head:
    """A typeset column.

    Attributes:
        printed: LaTeX of its head.
        keys: the columns of the table that it shows.
        between: what joins several: `BESIDE` one another, or the further ones, where they are known, `BEHIND` the first
            in parentheses or after `PLUS_MINUS`.
        width: of a column of text, as a share of the line; None for one as wide as its content.
        form: from row and number to LaTeX; None for the usual form of the column's unit.
    """

    printed: str
    keys: tuple[str, ...]
    between: str = BESIDE
    width: float | None = None
    form: Callable[[str, float], str] | None = None


def _unprinted(key: str) -> Row:
    return Row(key, key)


@dataclass(frozen=True)
class Table:
    """What tells one table from another.

    Attributes:
        title: start of the caption, in LaTeX.
        heads: typeset columns after that of the row's name.
        cells: what is measured or set.
        words: columns that are part of the row's name. Printed rows have the paper's; others state theirs as cells.
        first: head of the first column, which names the rows; None if there is none.
        scaled: whether the scale decides anything.
        note: further sentences of the caption and of the comparison, as plain text.
        columns: columns beside the paper's; all of them where the paper does not have the table.
        row: what stands at a row that the paper does not have, by its key.
        mark: LaTeX behind the name of a row, by its key.
        judged: columns whose signs and orders are compared with the paper's, in rows that are methods of `task`.
        lower_is_better: those of them whose best value is the lowest.
        task: of the runs, where columns are judged.
        task_of: the task of a row, by its key, where rows of several tasks share columns of scores.
        caption: the whole caption, as LaTeX sentences, from the results and the keys of rows; None for the usual one.
        name: file stem; given by who loads the table.
    """

    title: str
    heads: tuple[Head, ...]
    cells: Callable[[Evidence], Cells]
    words: tuple[str, ...] = ()
    first: str | None = ""
    scaled: bool = True
    note: Callable[[Evidence], str] | None = None
    columns: tuple[Column, ...] = ()
    row: Callable[[str], Row] = _unprinted
    mark: Callable[[str], str] | None = None
    judged: tuple[str, ...] = ()
    lower_is_better: tuple[str, ...] = ()
    task: str = ""
    task_of: Callable[[str], str] | None = None
    caption: Callable[[Evidence, Sequence[str]], Sequence[str]] | None = None
    name: str = ""

    @property
    def label(self) -> str:
        """LaTeX label, which the paper's table of the same name has too."""
        return f"tab:{self.name.removeprefix('tab_').replace('_', '-')}"

    @cached_property
    def reported(self) -> ReportedTable | None:
        """The paper's table of the same name, if it has one."""
        return load_reported(self.label) if reported_path(self.label).is_file() else None


@dataclass(frozen=True)
class Filled:
    """A table with its cells.

    Attributes:
        table: the table.
        evidence: the results.
        cells: its cells.
        layout: all rows and columns, with the printed number where there is one.
    """

    table: Table
    evidence: Evidence
    cells: Cells
    layout: ReportedTable

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that are not part of the row's name."""
        return tuple(column for column in self.layout.columns if column.key not in self.table.words)

    def unit(self, row: str, column: str) -> str:
        """Unit of a cell: its column's, where that is of scores for the row's task."""
        unit = next(item.unit for item in self.layout.columns if item.key == column)
        return unit if self.table.task_of is None else in_unit(TASKS[self.table.task_of(row)].score, unit)

    def in_paper(self, row: Row, column: str) -> bool:
        """Whether the paper's table has a place for this cell."""
        table = self.table.reported
        return table is not None and row.in_paper and any(item.key == column for item in table.columns)

    def word(self, row: Row, key: str) -> str | None:
        """What a column of words says of a row."""
        printed = self.layout.cell(row.key, key)
        return text_of(self.cells.get((row.key, key))) if printed is None else printed.text


def fill(table: Table, evidence: Evidence) -> Filled:
    """The table with all its cells, and with the rows that the paper has and those that it does not."""
    cells = table.cells(evidence)
    printed = table.reported or ReportedTable(table.label, "", (), ())
    further = tuple(column for column in table.columns if column.key not in {item.key for item in printed.columns})
    columns = (*printed.columns, *further)
    rows = [replace(row, cells=(*row.cells, *[None] * len(further))) for row in printed.rows]
    known, group = {row.key for row in rows}, 1 + max((row.group for row in rows), default=-1)
    for key in dict.fromkeys(row for row, _ in cells if row not in known):
        rows.append(replace(table.row(key), cells=(None,) * len(columns), group=group, in_paper=False))
    return Filled(table, evidence, cells, ReportedTable(table.label, printed.caption, columns, tuple(rows)))


def known(cells: Mapping[tuple[str, str], Content | None]) -> Cells:
    """The cells that are there."""
    return {key: content for key, content in cells.items() if content is not None}
