"""Builds a table by its label: from the tidy table of a scale to `.tex`, `.csv` and the comparison with the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from tap.config.load import load_scale
from tap.errors import UserError
from tap.paper.compare import compare
from tap.paper.compare_report import report
from tap.paper.evidence import Evidence
from tap.paper.measured import Measured
from tap.paper.reported import reported_path
from tap.paper.tables import baseline_origins, from_settings, probes, rates_and_memory
from tap.paper.tables.main_table import MAIN_TABLES, Cell, MainTable, cells, tabular
from tap.paper.tables.plain import PlainTable, build_plain_table, csv_text, files_of_runs
from tap.paper.tidy import read_tidy, tidy_path
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, record_job

SUFFIXES = (".tex", ".csv", ".compare.csv", ".compare.md")


@dataclass(frozen=True)
class Table:
    """A table that can be built.

    Attributes:
        tasks: the tasks whose runs it shows, as far as the scale has them; empty if settings are all that it needs.
        label: the reported table that stands beside it.
        reads: files that it is made from, by scale, task and the project's folder.
        build: from (scale, project folder) to the contents by file suffix.
    """

    tasks: tuple[str, ...]
    label: str
    reads: Callable[[str, str, Path], list[Path]]
    build: Callable[[str, Path], dict[str, str]]


def build_table(
    label: str, scale: str, out_folder: Path | str, root: Path | str = ".", stamp: Stamp = BY_HAND
) -> list[Path]:
    """Writes ``<label>.tex``, ``.csv``, ``.compare.csv`` and ``.compare.md``, and a record of how they were made.

    Beside the tidy tables only the per-image values that these name are read.

    Args:
        label: ``tab_cls``; the LaTeX label ``tab:cls`` is the same.
        scale: whose runs are shown.
        out_folder: where the files go.
        root: the project's folder.

    Returns:
        The files.

    Raises:
        UserError: no such table, no tidy table yet, settings or runs that cannot be read or are not what their own
            records say, or a folder that cannot be written.
    """
    started, name, root = datetime.now(UTC), table_name(label), Path(root)
    table = TABLES[name]
    contents = table.build(scale, root)
    read = [path for task in table.tasks for path in table.reads(scale, task, root)]
    files = [atomic_write(Path(out_folder) / f"{name}{suffix}", contents[suffix]) for suffix in SUFFIXES]
    record_job(
        Path(out_folder) / f"{name}{RECORD_SUFFIX}",
        stamp,
        inputs=[reported_path(table.label), *read],
        outputs=files,
        started=started,
        root=root,
    )
    return files


def table_name(label: str) -> str:
    """File stem of a table's label.

    Raises:
        UserError: no such table can be built.
    """
    name = label.replace(":", "_").replace("-", "_")
    if name not in TABLES:
        raise UserError(f"table '{label}': cannot be built; choose one of {', '.join(TABLES)}")
    return name


def build_main_table(table: MainTable, frame: pd.DataFrame, rate: float, scale: str, root: Path) -> dict[str, str]:
    """Contents of a main table's files by suffix."""
    measured = Measured(frame, rate, root)
    numbers = cells(table, measured)
    scores = [column.metric for column in table.scores]
    others = [name for column in table.throughput for name in (column.metric, column.ratio)]
    beside = compare(table.reported, measured, scale, scores, others)
    return {
        ".tex": tabular(table, measured, scale, numbers).render(),
        ".csv": csv_text(cell_frame(numbers, scale, measured.frame)),
        ".compare.csv": csv_text(beside),
        ".compare.md": report(beside, table.reported, measured, scale, scores, others),
    }


def cell_frame(numbers: Sequence[Cell], scale: str, runs: pd.DataFrame) -> pd.DataFrame:
    """One line per cell, with what it takes to walk back to its runs.

    Columns: row (reducer's name) and its printed name, column, unit, value, sd over seeds, low and high of the paired
    95 % interval (changes only), number of seeds, status (measured or missing), then device, batch, precision and
    kernel of the first run, and the ids of all runs.
    """
    by_run = runs.drop_duplicates("run").set_index("run")
    lines = []
    for cell in numbers:
        line: dict = {"scale": scale, "row": cell.row, "name": cell.label, "column": cell.column, "unit": cell.unit}
        value = cell.value
        if value is None:
            lines.append(line | {"n_seeds": 0, "status": "missing"})
            continue
        bounds = {} if value.interval is None else {"low": value.interval.low, "high": value.interval.high}
        where = by_run.loc[value.runs[0], ["device", "batch", "dtype", "kernel"]].to_dict()
        line |= {"value": value.mean, "sd": value.sd, **bounds, "n_seeds": len(value.seeds), "status": "measured"}
        lines.append(line | where | {"runs": " ".join(value.runs)})
    return pd.DataFrame(lines, columns=list(CELL_COLUMNS)).astype({"batch": "Int64"})


CELL_COLUMNS = (
    "scale",
    "row",
    "name",
    "column",
    "unit",
    "value",
    "sd",
    "low",
    "high",
    "n_seeds",
    "status",
    "device",
    "batch",
    "dtype",
    "kernel",
    "runs",
)


def _main(table: MainTable) -> Table:
    def build(scale: str, root: Path) -> dict[str, str]:
        frame = read_tidy(root / tidy_path(scale, table.task))
        return build_main_table(table, frame, load_scale(scale, root=root).main_rate, scale, root)

    return Table((table.task,), table.label, files_of_runs, build)


def _plain(table: PlainTable) -> Table:
    def build(scale: str, root: Path) -> dict[str, str]:
        return build_plain_table(table, Evidence(scale, root))

    return Table(table.tasks, table.label, table.reads, build)


TABLES: dict[str, Table] = {name: _main(table) for name, table in MAIN_TABLES.items()} | {
    table.name: _plain(table)
    for table in (*rates_and_memory.TABLES, *from_settings.TABLES, *probes.TABLES, *baseline_origins.TABLES)
}
"""Tables that can be built, by file stem."""
