"""Every table of the paper with the measured number beside each printed one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tap.errors import UserError
from tap.paper.reported import Column, load_reported, reported_labels


@dataclass(frozen=True)
class Number:
    """A measured cell.

    Attributes:
        text: as shown.
        value: the number.
        sd: standard deviation over seeds.
        low: lower bound of the 95 % interval.
        high: upper bound.
        unit: its unit.
        seeds: number of seeds.
        device: what it was measured on.
        runs: ids of the runs behind it.
    """

    text: str
    value: float
    sd: float | None
    low: float | None
    high: float | None
    unit: str
    seeds: int
    device: str
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A row: its printed name, the midrules above it, and (printed, measured) for every column."""

    key: str
    name: str
    group: int
    cells: tuple[tuple[str, Number | str | None], ...]


@dataclass(frozen=True)
class TableBeside:
    """A table of the paper beside what was measured. A text cell is measured as text, a number as a `Number`."""

    label: str
    caption: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]

    @property
    def measured(self) -> int:
        """How many cells have something measured."""
        return sum(ours is not None for line in self.lines for _, ours in line.cells)

    @property
    def printed(self) -> int:
        """How many cells the paper prints."""
        return sum(theirs != "" for line in self.lines for theirs, _ in line.cells)


def tables_beside(folder: Path) -> list[TableBeside]:
    """All tables of the paper, with the values of the CSV files that lie in a folder of tables.

    Raises:
        UserError: a CSV file cannot be read.
    """
    return [_beside(label, folder / f"{label.replace(':', '_').replace('-', '_')}.csv") for label in reported_labels()]


def _beside(label: str, path: Path) -> TableBeside:
    table = load_reported(label)
    ours = _measured(path) if path.is_file() else {}
    lines = []
    for row in table.rows:
        pairs = []
        for column, cell in zip(table.columns, row.cells, strict=True):
            pairs.append(("" if cell is None else cell.text, ours.get((row.key, column.key))))
        lines.append(Line(row.key, row.label, row.group, tuple(pairs)))
    return TableBeside(label, table.caption, table.columns, tuple(lines))


def _measured(path: Path) -> dict[tuple[str, str], Number | str]:
    try:
        words = dict.fromkeys(("runs", "device", "row", "column", "text", "unit"), str)
        frame = pd.read_csv(path, dtype=words, keep_default_na=False, na_values=[""])  # "n/a" is a word here
        frame = frame[frame["status"] == "measured"]
        return {(line["row"], line["column"]): _cell(line) for line in frame.to_dict("records")}
    except (OSError, KeyError, ValueError, pd.errors.ParserError) as error:
        raise UserError(f"{path}: cannot be read as a table's cells ({error}); make the table again") from error


def _cell(line: dict) -> Number | str:
    text = line.get("text")
    if isinstance(text, str) and text:
        return text
    value, unit = float(line["value"]), str(line["unit"])
    bounds = [None if _absent(line.get(name)) else float(line[name]) for name in ("sd", "low", "high")]
    runs = () if _absent(line.get("runs")) else tuple(str(line["runs"]).split())
    device = "" if _absent(line.get("device")) else str(line["device"])
    return Number(shown(value, unit), value, *bounds, unit, int(line["n_seeds"]), device, runs)


def shown(value: float, unit: str) -> str:
    """A number as the page prints it, one place finer than the paper."""
    if unit in ("percent", "ratio"):
        return f"{value:.2f}"
    if unit == "points":
        return f"{value:+.2f}"
    if unit in ("parameters", "patches", "rank") or value == int(value):
        return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
    return f"{value:.4g}"


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
