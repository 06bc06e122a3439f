"""The paper's printed tables as data (`tap/paper/reported/*.yaml`), with the precision at which each number is printed.

Reported numbers are for standing beside measured ones. No builder may put one into a measured column.

A file holds one table. Compound cells of the paper, such as ``46.0 (-1.2)`` or ``83.1 +- 0.09``, are taken apart into
one column per number, so that every cell is one printed value; the text ``rule`` between rows is a midrule.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, model_validator
from pydantic.dataclasses import dataclass

from tap.errors import UserError
from tap.paper.yaml_file import read_yaml

FOLDER = Path(__file__).with_name("reported")
PAPER_ORDER = (
    "seg", "cls", "det", "ablation", "stability-memory", "notation", "budget-tests", "parameters",
    "training-config", "ownership", "baseline-provenance", "dense-baseline-provenance", "criteria",
    "criterion-summary", "paired-recovery", "verified-main", "keep-rates", "absolute-ablation", "factorial",
    "matching-ablation", "matching-recovery", "training-ablation", "allocation-controls", "register-distributions",
    "latency-breakdown", "memory", "spatial-statistics", "claim-map"
)  # fmt: skip
"""Tables in the order in which the paper prints them."""
RULE = "rule"

_NUMBER = re.compile(r"(?P<bound><)?(?P<digits>[+-]?[\d,]*\d(?:\.\d+)?)(?P<suffix>[KM%]?)")
_POWER = re.compile(r"(?:(?P<factor>\d+(?:\.\d+)?)\u00d7)?10\^(?P<exponent>-?\d+)")
_SUFFIX = {"": 0, "%": 0, "K": 3, "M": 6}
_FORM = ConfigDict(extra="forbid")


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


def _cell(text: Any) -> Any:
    if isinstance(text, int | float):  # YAML would turn 47.0 into 47 point something and lose the printed places
        raise ValueError(f"quote the cell {text!r}")
    return Printed.parse(text) if isinstance(text, str) else text


Cell = Annotated[Printed, BeforeValidator(_cell)]


@dataclass(frozen=True, config=_FORM)
class Column:
    """A column: its key (the metric's name where there is one), its printed head, its unit."""

    key: str
    printed: str
    unit: str


@dataclass(frozen=True, config=_FORM)
class Row:
    """A row of a table.

    Attributes:
        key: name within the table; in the main tables the reducer's name.
        label: what the paper prints.
        cells: one per column; None where the paper prints nothing.
        regime: ``dense`` (no pruning), ``full`` (fully fine-tuned), ``frozen`` (shared frozen base); ``floor`` for what
            needs no trained encoder, which the paper does not have; None elsewhere.
        dagger: whether the paper marks the row as a dense baseline without a native readout.
        bold: keys of the columns whose value the paper prints in bold.
        group: number of midrules above the row.
        in_paper: whether the paper has the row.
    """

    key: str
    label: str
    cells: tuple[Cell | None, ...] = ()
    regime: Literal["dense", "full", "frozen", "floor"] | None = None
    dagger: bool = False
    bold: tuple[str, ...] = ()
    group: int = 0
    in_paper: bool = True


@dataclass(frozen=True, config=_FORM)
class ReportedTable:
    """One table of the paper."""

    label: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @model_validator(mode="before")
    @classmethod
    def _midrules(cls, raw: Any) -> Any:
        """The text ``rule`` between rows becomes the number of midrules above each row; a label defaults to the key."""
        fields = raw if isinstance(raw, dict) else getattr(raw, "kwargs", None)
        if not fields or not isinstance(fields.get("rows"), list):
            return raw
        rows, group = [], 0
        for item in fields["rows"]:
            if item == RULE:
                group += 1
            else:
                rows.append({"label": item.get("key"), "group": group, **item} if isinstance(item, dict) else item)
        return {**fields, "rows": rows}

    @model_validator(mode="after")
    def _shape(self) -> ReportedTable:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"row '{row.key}' has {len(row.cells)} cells for {len(self.columns)} columns")
        for keys in ([row.key for row in self.rows], [column.key for column in self.columns]):
            if len(set(keys)) < len(keys):
                raise ValueError("a row or column key appears twice; give each its own")
        return self

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
    """Labels (``tab:seg``) of the tables that exist as data, in the paper's order; any others after them."""
    found = {path.stem for path in FOLDER.glob("*.yaml")}
    return [
        f"tab:{name}" for name in (*(name for name in PAPER_ORDER if name in found), *sorted(found - {*PAPER_ORDER}))
    ]


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
    return read_yaml(path, ReportedTable)
