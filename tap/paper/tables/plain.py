"""Tables that are a function of what is measured or set, cell by cell: the paper's rows and columns, other numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from tap.paper.compare import COLUMNS, NO_VERDICT, NOT_MEASURED
from tap.paper.evidence import Evidence
from tap.paper.measured import Value
from tap.paper.reported import ReportedTable, Row, load_reported
from tap.paper.tables import latex
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tidy import tidy_path
from tap.provenance.verify import verified_path

Content = Value | str
Cells = Mapping[tuple[str, str], Content]

PLUS_MINUS = r"$\pm$"


def files_of_runs(scale: str, task: str, root: Path) -> list[Path]:
    """The tidy table of a task's runs and the list of what was verified behind it, as far as they are there."""
    return [path for name in (tidy_path, verified_path) if (path := root / name(scale, task)).is_file()]


@dataclass(frozen=True)
class Head:
    """A typeset column: its head, and the columns of the reported table that it shows, with what is put between them
    and behind the last of several.

    With a `width` it is a column of text that wide, as a share of the line.
    """

    printed: str
    keys: tuple[str, ...]
    between: str = ""
    after: str = ""
    width: float | None = None


@dataclass(frozen=True)
class PlainTable:
    """What tells one table from another.

    Attributes:
        label: of the reported table.
        tasks: tasks whose tidy tables it reads; empty if it reads settings alone.
        title: start of the caption, in LaTeX.
        heads: typeset columns after that of the row's name.
        cells: what is measured or set, by (row, column); what is not there is missing.
        words: columns that are part of the row's name and are taken from the paper.
        names: whether rows are named in a first column.
        scaled: whether the scale decides anything.
        note: further sentences of the caption, as plain text.
        reads: files that it is made from, by scale, task and the project's folder.
        further: rows that were measured and that the paper does not print; they are shown beside the typeset table.
    """

    label: str
    tasks: tuple[str, ...]
    title: str
    heads: tuple[Head, ...]
    cells: Callable[[Evidence], Cells]
    words: tuple[str, ...] = ()
    names: bool = True
    scaled: bool = True
    note: Callable[[Evidence], str] | None = None
    reads: Callable[[str, str, Path], list[Path]] = files_of_runs
    further: Callable[[Evidence], Sequence[Row]] | None = None

    @property
    def reported(self) -> ReportedTable:
        """The paper's table of the same name."""
        return load_reported(self.label)

    @property
    def name(self) -> str:
        """File stem."""
        return self.label.replace(":", "_").replace("-", "_")


def build_plain_table(table: PlainTable, evidence: Evidence) -> dict[str, str]:
    """Contents of the table's files by suffix."""
    cells, further = table.cells(evidence), () if table.further is None else table.further(evidence)
    whole = replace(table.reported, rows=(*table.reported.rows, *further))
    return {
        ".tex": _tabular(table, evidence, cells).render(),
        ".csv": csv_text(_cell_frame(table, whole, evidence, cells)),
        ".compare.csv": csv_text(_compare_frame(table, whole, evidence, cells)),
        ".compare.md": _markdown(table, whole, evidence, cells),
    }


def shown(content: Content | None, unit: str, sd: bool = False) -> str:
    """A cell as the table prints it."""
    if content is None:
        return latex.MISSING
    if isinstance(content, str):
        return latex.escape(content)
    if sd:
        return f"{content.mean:.2f}"
    forms: dict[str, Callable[[float], str]] = {
        "percent": latex.score,
        "points": latex.signed,
        "points lost": lambda value: latex.signed(value).removeprefix("+"),
        "images/s": latex.rate,
        "ratio": latex.ratio,
        "parameters": lambda value: f"{value:,.0f}",
        "GB": lambda value: f"{value:.2f}",
    }
    return forms.get(unit, "{:g}".format)(content.mean)


def _tabular(table: PlainTable, evidence: Evidence, cells: Cells) -> latex.Tabular:
    units = {column.key: column.unit for column in table.reported.columns}
    groups: list[list[list[str]]] = []
    for row in table.reported.rows:
        while len(groups) <= row.group:
            groups.append([])
        line = [latex.escape(row.label)] if table.names else []
        for head in table.heads:
            parts = []
            for key in head.keys:
                if head.between == PLUS_MINUS and _is_of_one_seed(cells, row.key, key):
                    continue
                printed = table.reported.cell(row.key, key)
                content = printed.text if key in table.words and printed is not None else cells.get((row.key, key))
                parts.append(shown(content, units[key], sd=_deviating(key) is not None))
            line.append(latex.MISSING if set(parts) == {latex.MISSING} else head.between.join(parts) + head.after)
        groups[row.group].append(line)
    return latex.Tabular(
        label=table.label,
        caption=_caption(table, evidence, cells),
        heads=[*([""] if table.names else []), *(head.printed for head in table.heads)],
        groups=groups,
        origin=f"Written by the workflow; {table.name}.csv lists where each cell comes from. Do not edit.",
        tight=len(table.heads) > 4,
        widths=tuple(head.width for head in table.heads),
    )


def _deviating(column: str) -> str | None:
    """The column whose standard deviation a column holds; None if it holds none."""
    if column.endswith("_sd"):
        return column.removesuffix("_sd")
    return column.replace("sd_", "score_") if column.startswith("sd_") else None


def _is_of_one_seed(cells: Cells, row: str, column: str) -> bool:
    """Whether a cell would hold a standard deviation of what was measured with one seed, which has none."""
    value = cells.get((row, _deviating(column) or ""))
    return (row, column) not in cells and isinstance(value, Value) and len(value.seeds) == 1


def _caption(table: PlainTable, evidence: Evidence, cells: Cells) -> str:
    columns = [column.key for column in table.reported.columns if column.key not in table.words]
    absent = [(row.key, key) for row in table.reported.rows for key in columns if (row.key, key) not in cells]
    of_one_seed = [key for key in absent if _is_of_one_seed(cells, *key)]
    devices = sorted({device for content in cells.values() for device in _devices(evidence, table, content)})
    parts = [
        f"{table.title} at scale \\texttt{{{evidence.scale}}}." if table.scaled else f"{table.title}.",
        *([rf"\textbf{{{SMOKE_NOTE}}}"] if table.scaled and evidence.scale == "smoke" else []),
        *([latex.escape(table.note(evidence))] if table.note is not None else []),
        *([f"Device: {latex.escape('; '.join(devices))}."] if devices else []),
        *(["Where an SD is missing: one seed, so no SD."] if of_one_seed else []),
        *([f"{latex.MISSING} has not been measured."] if len(of_one_seed) < len(absent) else []),
    ]
    return "\n".join(parts)


def _devices(evidence: Evidence, table: PlainTable, content: Content) -> tuple[str, ...]:
    if isinstance(content, str) or not content.runs:
        return ()
    return evidence.devices(content.runs[0].split("/")[0], content.runs)


def _cell_frame(table: PlainTable, whole: ReportedTable, evidence: Evidence, cells: Cells) -> pd.DataFrame:
    """One line per cell. Columns as those of the main tables' CSV, and ``text`` for cells that are words."""
    lines = []
    for row in whole.rows:
        for column in whole.columns:
            if column.key in table.words:
                continue
            content = cells.get((row.key, column.key))
            line: dict = {"scale": evidence.scale, "row": row.key, "name": row.label, "column": column.key}
            line |= {"unit": column.unit, "n_seeds": 0, "status": "missing" if content is None else "measured"}
            if isinstance(content, str):
                line["text"] = content
            elif content is not None:
                bounds = content.interval
                line |= {"value": content.mean, "sd": content.sd, "n_seeds": len(content.seeds)}
                line |= {} if bounds is None else {"low": bounds.low, "high": bounds.high}
                devices = _devices(evidence, table, content)
                line |= {"device": "; ".join(devices), "runs": " ".join(content.runs)}
            lines.append(line)
    return pd.DataFrame(lines, columns=list(CELL_COLUMNS))


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
    "text",
    "n_seeds",
    "status",
    "device",
    "runs",
)


def _compare_frame(table: PlainTable, whole: ReportedTable, evidence: Evidence, cells: Cells) -> pd.DataFrame:
    """Measured beside reported; no verdicts, which the audit gives."""
    lines = []
    for row in whole.rows:
        for column in whole.columns:
            content = cells.get((row.key, column.key))
            if column.key in table.words or isinstance(content, str):
                continue
            line = {"scale": evidence.scale, "kind": "value", "row": row.key, "other": "", "metric": column.key}
            line |= {"measured": None if content is None else content.mean}
            line |= {"reported": whole.value(row.key, column.key)}
            line |= {"verdict": NOT_MEASURED if content is None else NO_VERDICT}
            lines.append(line)
    return pd.DataFrame(lines, columns=list(COLUMNS))


def _markdown(table: PlainTable, whole: ReportedTable, evidence: Evidence, cells: Cells) -> str:
    units = {column.key: column.unit for column in whole.columns}
    lines = [f"# {table.label}: scale {evidence.scale} beside the paper", ""]
    if evidence.scale == "smoke":
        lines += [f"**{SMOKE_NOTE}**", ""]
    columns = [column for column in whole.columns if column.key not in table.words]
    lines += [
        f"The paper: {whole.caption}",
        *(["", table.note(evidence)] if table.note is not None else []),
        "",
        "Here / in the paper. Verdicts on what the paper claims of these numbers are in the audit.",
        "",
        f"| | {' | '.join(column.printed for column in columns)} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for row in whole.rows:
        texts = []
        for column in columns:
            content, printed = cells.get((row.key, column.key)), whole.cell(row.key, column.key)
            ours = content if isinstance(content, str) else _plain(content, units[column.key])
            texts.append(f"{ours} / {latex.MISSING if printed is None else printed.text}")
        typeset = [key for head in table.heads for key in head.keys if key in table.words]
        extra = [cell.text for key in typeset if (cell := whole.cell(row.key, key)) is not None]
        lines.append(f"| {' '.join([row.label, *extra])} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def _plain(content: Value | None, unit: str) -> str:
    if content is None:
        return latex.MISSING
    if unit == "parameters":
        return f"{content.mean:,.0f}"
    return f"{content.mean:.4g}" if abs(content.mean) < 1000 else f"{content.mean:,.0f}"


def csv_text(frame: pd.DataFrame) -> str:
    """A table's CSV file."""
    return frame.to_csv(index=False, lineterminator="\n")


def by_rows(rows: Sequence[str], columns: Sequence[str], cell: Callable[[str, str], Content | None]) -> Cells:
    """All cells that are there, from a function of row and column."""
    found = {(row, column): cell(row, column) for row in rows for column in columns}
    return {key: content for key, content in found.items() if content is not None}
