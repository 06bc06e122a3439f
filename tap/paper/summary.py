"""What `make reproduce` ends with: where the tables are, how full they are, and how they compare with the paper."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

from tap.errors import UserError
from tap.paper.tables.build import load_table
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tables.compare import AGREES, CONTRADICTS, UNRESOLVED, contradictions, rank_correlation, verdicts
from tap.paper.tables.names import names


def print_summary(folder: Path | str = "paper_tables", console: Console | None = None) -> int:
    """Prints the state of every table that is in the folder.

    Args:
        folder: where `build_table` wrote.
        console: where to print; standard output if not given.

    Returns:
        Number of tables found.

    Raises:
        UserError: a table's comparison cannot be read.
    """
    console = console or Console()
    folder = Path(folder)
    tables = [name for name in names() if (folder / f"{name}.tex").is_file()]
    if not tables:
        console.print(f"No table in {folder} yet; `make reproduce` makes them.", markup=False)
        return 0
    grid = Table(title=f"Tables in {folder}")
    for head in ("table", "scale", "rows measured", "rank corr.", AGREES, CONTRADICTS, UNRESOLVED):
        grid.add_column(head)
    sentences: list[str] = []
    scales = set()
    for name in tables:
        frame = _read(folder / f"{name}.compare.csv")
        scale = str(frame["scale"].iloc[0])
        scales.add(scale)
        scored = list(dict.fromkeys(frame.loc[frame["kind"] == "order", "metric"]))
        if scale != "smoke":  # nothing that was measured there says anything about the paper
            sentences += [f"{name}: {sentence}" for sentence in contradictions(frame, _labels(name))]
        for metric in scored:
            rows = frame[(frame["kind"] == "value") & (frame["metric"] == metric)]
            _, correlation = rank_correlation(frame, metric)
            counts = verdicts(frame, metric)
            grid.add_row(
                f"{name} {metric}",
                scale,
                f"{rows['measured'].notna().sum()} of {len(rows)}",
                "--" if correlation is None or math.isnan(correlation.estimate) else f"{correlation.estimate:+.2f}",
                *(str(counts[verdict]) for verdict in (AGREES, CONTRADICTS, UNRESOLVED)),
            )
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


def _labels(name: str) -> dict[str, str]:
    """Printed names of rows; what contradicts the paper is in it."""
    reported = load_table(name).reported
    return {} if reported is None else {row.key: row.label for row in reported.rows}


def _read(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, keep_default_na=True)
        frame[["verdict", "other"]] = frame[["verdict", "other"]].fillna("")
    except (OSError, KeyError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise UserError(f"{path}: cannot be read ({error}); make the table again") from error
    return frame
