"""Every table with the number that is known here beside each printed one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tap.errors import UserError
from tap.paper.reported import Column, ReportedTable, Row, load_reported, reported_labels
from tap.paper.tables.names import names
from tap.paper.tables.table import Status


@dataclass(frozen=True)
class Ours:
    """A cell that is known here.

    Attributes:
        text: as shown.
        status: how it is known (`tap.paper.tables.table.Status`).
        value: the number; None for words.
        sd: standard deviation over seeds.
        low: lower bound of the 95 % interval.
        high: upper bound.
        unit: its unit.
        seeds: number of seeds.
        device: what it was measured on.
        runs: ids of the runs behind it.
    """

    text: str
    status: str
    value: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    seeds: int = 0
    device: str = ""
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """A row: its printed name, the midrules above it, (printed, ours) for every column, whether the paper has it."""

    key: str
    name: str
    group: int
    cells: tuple[tuple[str, Ours | None], ...]
    in_paper: bool = True


@dataclass(frozen=True)
class TableBeside:
    """A table of the paper, or one that it does not have, beside what is known here."""

    label: str
    caption: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]

    @property
    def measured(self) -> int:
        """How many cells of the paper's rows were measured."""
        return self.count(Status.MEASURED)

    @property
    def further(self) -> int:
        """How many cells were measured of rows that the paper does not have."""
        return self.count(Status.MEASURED, in_paper=False)

    @property
    def printed(self) -> int:
        """How many cells the paper prints."""
        return sum(theirs != "" for line in self.lines for theirs, _ in line.cells)

    def count(self, status: Status, in_paper: bool = True) -> int:
        """How many cells are known in a way, in rows that the paper has, or that it does not have."""
        lines = [line for line in self.lines if line.in_paper == in_paper]
        return sum(ours is not None and ours.status == status for line in lines for _, ours in line.cells)


def tables_beside(folder: Path) -> list[TableBeside]:
    """All tables of the paper and those that it does not have, with the values of the CSV files of a folder of tables.

    Raises:
        UserError: a CSV file cannot be read.
    """
    printed = [label.replace(":", "_").replace("-", "_") for label in reported_labels()]
    further = [name for name in names() if name not in printed and (folder / f"{name}.csv").is_file()]
    return [_beside(name, folder / f"{name}.csv", name in printed) for name in (*printed, *further)]


def _beside(name: str, path: Path, printed: bool) -> TableBeside:
    frame = _read(path) if path.is_file() else None
    label = f"tab:{name.removeprefix('tab_').replace('_', '-')}"
    table = load_reported(label) if printed else ReportedTable(label, "Not a table of the paper.", _columns(frame), ())
    ours = {} if frame is None else {(line["row"], line["column"]): _cell(line) for line in frame.to_dict("records")}
    rows = [(row, row.cells) for row in table.rows]
    known = {row.key for row in table.rows}
    for key, label_of_row in {} if frame is None else dict(zip(frame["row"], frame["name"], strict=True)).items():
        if key not in known:
            group = 1 + max((row.group for row in table.rows), default=-1)
            rows.append((Row(key, label_of_row, group=group, in_paper=False), (None,) * len(table.columns)))
    lines = [
        Line(
            row.key,
            row.label,
            row.group,
            tuple(
                ("" if cell is None else cell.text, ours.get((row.key, column.key)))
                for column, cell in zip(table.columns, cells, strict=True)
            ),
            row.in_paper,
        )
        for row, cells in rows
    ]
    return TableBeside(label, table.caption, table.columns, tuple(lines))


def _columns(frame: pd.DataFrame | None) -> tuple[Column, ...]:
    """Columns of a table that the paper does not have."""
    if frame is None:
        return ()
    units = dict(zip(frame["column"], frame["unit"], strict=True))
    return tuple(Column(key, key, "" if _absent(unit) else unit) for key, unit in units.items())


def _read(path: Path) -> pd.DataFrame:
    """Lines of a table's CSV of cells that are known."""
    try:
        words = dict.fromkeys(("runs", "device", "row", "name", "column", "text", "unit", "status"), str)
        frame = pd.read_csv(path, dtype=words, keep_default_na=False, na_values=[""])  # "n/a" is a word here
        return frame[frame["status"] != Status.MISSING].astype({"n_seeds": int, "value": float})
    except (OSError, KeyError, ValueError, pd.errors.ParserError) as error:
        raise UserError(f"{path}: cannot be read as a table's cells ({error}); make the table again") from error


def _cell(line: dict) -> Ours:
    if not _absent(line.get("text")):
        return Ours(str(line["text"]), str(line["status"]))
    value, unit = float(line["value"]), str(line["unit"])
    bounds = [None if _absent(line.get(name)) else float(line[name]) for name in ("sd", "low", "high")]
    runs = () if _absent(line.get("runs")) else tuple(str(line["runs"]).split())
    device = "" if _absent(line.get("device")) else str(line["device"])
    return Ours(shown(value, unit), str(line["status"]), value, *bounds, unit, int(line["n_seeds"]), device, runs)


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
