"""The paper's printed tables as data (`tap/paper/reported/*.yaml`), with the precision at which each number is printed.

Reported numbers are for standing beside measured ones. No builder may put one into a measured column.

A file holds one table. Compound cells of the paper, such as ``46.0 (-1.2)`` or ``83.1 +- 0.09``, are taken apart into
one column per number, so that every cell is one printed value; the text ``rule`` between rows is a midrule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

import yaml

from tap.errors import UserError

FOLDER = Path(__file__).with_name("reported")
RULE = "rule"

_NUMBER = re.compile(r"(?P<bound><)?(?P<digits>[+-]?[\d,]*\d(?:\.\d+)?)(?P<suffix>[KM%]?)")
_POWER = re.compile(r"(?:(?P<factor>\d+(?:\.\d+)?)\u00d7)?10\^(?P<exponent>-?\d+)")
_SUFFIX = {"": 0, "%": 0, "K": 3, "M": 6}
_REGIMES = (None, "dense", "full", "frozen")


@dataclass(frozen=True)
class Printed:
    """One cell as printed.

    Attributes:
        text: the characters of the paper without LaTeX, such as ``+2.3K``.
        value: the number they stand for, such as 2300; None where the cell is no number.
        half_unit: half a unit of the last printed place, such as 50: the value that was rounded lies within
            ``value`` plus or minus this.
        bound: whether the paper prints an upper bound (``<+0.1K``) instead of a value.
    """

    text: str
    value: Decimal | None = None
    half_unit: Decimal | None = None
    bound: bool = False

    @classmethod
    def parse(cls, text: str) -> Printed:
        """Reads a printed cell; text that is no single number keeps ``value`` None."""
        if match := _NUMBER.fullmatch(text):
            digits, shift = match["digits"].replace(",", ""), _SUFFIX[match["suffix"]]
            places = len(digits.partition(".")[2])
            half = Decimal(5).scaleb(shift - places - 1)
            return cls(text, Decimal(digits).scaleb(shift), half, match["bound"] is not None)
        if match := _POWER.fullmatch(text):
            factor, exponent = match["factor"] or "1", int(match["exponent"])
            places = len(factor.partition(".")[2])
            return cls(text, Decimal(factor).scaleb(exponent), Decimal(5).scaleb(exponent - places - 1))
        return cls(text)

    @property
    def low(self) -> Decimal:
        """Smallest number that prints like this."""
        return self._number() - (self.half_unit or 0)

    @property
    def high(self) -> Decimal:
        """Largest number that prints like this."""
        return self._number() + (self.half_unit or 0)

    def _number(self) -> Decimal:
        if self.value is None:
            raise ValueError(f"the printed cell '{self.text}' is no number")
        return self.value


@dataclass(frozen=True)
class Column:
    """A column: its key (the metric's name where there is one), its printed head, its unit."""

    key: str
    printed: str
    unit: str


@dataclass(frozen=True)
class Row:
    """A row of a reported table.

    Attributes:
        key: name within the table; in the main tables the reducer's name.
        label: what the paper prints.
        cells: one per column; None where the paper prints nothing.
        regime: ``dense`` (no pruning), ``full`` (fully fine-tuned), ``frozen`` (shared frozen base); None elsewhere.
        dagger: whether the paper marks the row as a dense baseline without a native readout.
        bold: keys of the columns whose value the paper prints in bold.
        group: number of midrules above the row.
    """

    key: str
    label: str
    cells: tuple[Printed | None, ...]
    regime: str | None = None
    dagger: bool = False
    bold: tuple[str, ...] = ()
    group: int = 0


@dataclass(frozen=True)
class ReportedTable:
    """One table of the paper."""

    label: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def row(self, key: str) -> Row:
        """The row called ``key``.

        Raises:
            KeyError: there is none.
        """
        for row in self.rows:
            if row.key == key:
                return row
        raise KeyError(f"{self.label} has no row '{key}'")

    def cell(self, row: str, column: str) -> Printed | None:
        """The printed cell, None where the paper prints nothing.

        Raises:
            KeyError: no such row or column.
        """
        keys = [item.key for item in self.columns]
        if column not in keys:
            raise KeyError(f"{self.label} has no column '{column}'")
        return self.row(row).cells[keys.index(column)]

    def value(self, row: str, column: str) -> float | None:
        """The printed number, None where the paper prints none or only a bound."""
        cell = self.cell(row, column)
        return None if cell is None or cell.value is None or cell.bound else float(cell.value)


def reported_labels() -> list[str]:
    """Labels (``tab:seg``) of the tables that exist as data, sorted."""
    return sorted(f"tab:{path.stem}" for path in FOLDER.glob("*.yaml"))


def reported_path(label: str) -> Path:
    """The file of the table called ``label``."""
    name = re.sub(r"^tab[:_]", "", label).replace("_", "-")
    return FOLDER / f"{name}.yaml"


@cache
def load_reported(label: str) -> ReportedTable:
    """Reads the table called ``label`` (``tab:seg``; ``tab_seg`` is the same).

    Raises:
        UserError: no such table, or its file is not in the form that the module describes.
    """
    path = reported_path(label)
    if not path.is_file():
        raise UserError(f"table '{label}': no such reported table; there are {', '.join(reported_labels())}")
    return read_reported(path)


def read_reported(path: Path) -> ReportedTable:
    """Reads one file of a reported table.

    Raises:
        UserError: the file is not in the form that the module describes.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: no valid YAML; {error}") from error
    try:
        columns = tuple(Column(**item) for item in raw["columns"])
        rows = _rows(raw["rows"], columns)
        table = ReportedTable(raw["label"], raw["caption"], columns, rows)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not the form of a reported table ({error}); see tap/paper/reported.py") from error
    keys = [row.key for row in rows]
    if len(set(keys)) != len(keys) or len({column.key for column in columns}) != len(columns):
        raise UserError(f"{path}: a row or column key appears twice; give each its own")
    return table


def _rows(raw: list, columns: tuple[Column, ...]) -> tuple[Row, ...]:
    rows: list[Row] = []
    group = 0
    for item in raw:
        if item == RULE:
            group += 1
            continue
        cells = item["cells"]
        if len(cells) != len(columns):
            raise ValueError(f"row '{item['key']}' has {len(cells)} cells for {len(columns)} columns")
        unquoted = [cell for cell in cells if not isinstance(cell, str | None)]
        if unquoted:  # YAML would turn 47.0 into 47 point something and lose the printed places
            raise ValueError(f"row '{item['key']}': quote the cell {unquoted[0]!r}")
        if item.get("regime") not in _REGIMES:
            raise ValueError(f"row '{item['key']}': regime '{item['regime']}' is not one of dense, full, frozen")
        unknown = set(item) - {"key", "label", "cells", "regime", "dagger", "bold"}
        if unknown:
            raise ValueError(f"row '{item['key']}': unknown entries {sorted(unknown)}")
        rows.append(
            Row(
                key=item["key"],
                label=item.get("label", item["key"]),
                cells=tuple(None if cell is None else Printed.parse(cell) for cell in cells),
                regime=item.get("regime"),
                dagger=item.get("dagger", False),
                bold=tuple(item.get("bold", ())),
                group=group,
            )
        )
    return tuple(rows)
