"""What `make reproduce` ends with: where the tables are, how full they are, and how they compare with the paper."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

from tap.errors import UserError
from tap.paper.reported import load_reported, reported_path
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tables.compare import AGREES, CONTRADICTS, UNRESOLVED, contradictions, rank_correlation, verdicts
from tap.paper.tables.latex import MISSING
from tap.paper.tables.names import names
from tap.paper.tables.table import Status


def print_summary(
    folder: Path | str = "paper_tables", console: Console | None = None, made_by: str = "make reproduce"
) -> int:
    """Prints the state of every table that is in the folder.

    Args:
        folder: where `build_table` wrote.
        console: where to print; standard output if not given.
        made_by: the command that makes the tables of this folder.

    Returns:
        Number of tables found.

    Raises:
        UserError: a table's comparison cannot be read.
    """
    # A log has no width of its own, and at the usual 80 columns every cell would break.
    console = console or (Console() if sys.stdout.isatty() else Console(width=120))
    folder = Path(folder)
    tables = [name for name in names() if (folder / f"{name}.tex").is_file()]
    if not tables:
        console.print(f"No table in {folder} yet; `{made_by}` makes them.", markup=False)
        return 0
    grid = Table(title=f"Tables in {folder}")
    grid.add_column("table", no_wrap=True)
    for head in ("scale", "measured", "rank corr.", AGREES, CONTRADICTS, UNRESOLVED):
        grid.add_column(head)
    sentences: list[str] = []
    scales = set()
    for name in tables:
        cells, beside = _read(folder / f"{name}.csv", ["scale", "status"]), _read(folder / f"{name}.compare.csv")
        if cells.empty:
            grid.add_row(name, MISSING, "nothing", *[MISSING] * 4)
            continue
        scale = str(cells["scale"].iloc[0])
        scales.add(scale)
        if scale != "smoke":  # nothing that was measured there says anything about the paper
            printed = load_reported(name).rows if reported_path(name).is_file() else ()
            labels = {row.key: row.label for row in printed}
            sentences += [f"{name}: {sentence}" for sentence in contradictions(beside, labels)]
        for label, measured, *compared in _lines(name, cells, beside):
            grid.add_row(label, scale, measured, *(compared if scale != "smoke" else [MISSING] * len(compared)))
    console.print(grid)
    if "smoke" in scales:
        console.print(SMOKE_NOTE, markup=False)
    if sentences:
        console.print("Where the measurement contradicts the paper:", markup=False)
        for sentence in sentences:
            console.print(f"  {sentence}", markup=False)
    elif "smoke" not in scales:
        console.print("No resolved contradiction with the paper.", markup=False)
    console.print(
        "Each table: .tex, .csv (values and run ids), .compare.md (beside the paper, in words).", markup=False
    )
    return len(tables)


def _lines(name: str, cells: pd.DataFrame, beside: pd.DataFrame) -> list[tuple[str, ...]]:
    """A table's lines: one for each score by which it ranks methods, else one that says how full it is."""
    scores = list(dict.fromkeys(beside.loc[beside["kind"] == "order", "metric"]))
    if not scores:
        others = [(status, (cells["status"] == status).sum()) for status in (Status.RECOMPUTED, Status.STATED)]
        known = "".join(f", {count} {status}" for status, count in others if count)
        return [(name, f"{(cells['status'] == Status.MEASURED).sum()} of {len(cells)} cells{known}", *[MISSING] * 4)]
    lines = []
    for score in scores:
        rows = beside[(beside["kind"] == "value") & (beside["metric"] == score)]
        _, correlation = rank_correlation(beside, score)
        known = correlation is not None and not math.isnan(correlation.estimate)
        counts = verdicts(beside, score)
        lines.append(
            (
                f"{name} {score}",
                f"{rows['measured'].notna().sum()} of {len(rows)} rows",
                f"{correlation.estimate:+.2f}" if correlation is not None and known else MISSING,
                *(str(counts[verdict]) for verdict in (AGREES, CONTRADICTS, UNRESOLVED)),
            )
        )
    return lines


def _read(path: Path, needed: Sequence[str] = ("verdict", "other")) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, dtype=dict.fromkeys(needed, "str"))
        frame[list(needed)] = frame[list(needed)].fillna("")
    except (OSError, KeyError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise UserError(f"{path}: cannot be read ({error}); make the table again") from error
    return frame
