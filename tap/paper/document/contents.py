"""What the document holds, in the order of the paper, and a sentence on each part."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

from tap.errors import UserError
from tap.paper.audit.beside import Ours, TableBeside, tables_beside
from tap.paper.figures.names import FIGURES, GROUPS
from tap.paper.tables.compare import AGREES, CONTRADICTS, UNRESOLVED
from tap.paper.tables.table import Status

ORDER: Final = (
    "fig:insight", "fig:method", "tab:seg", "tab:cls", "fig:qual", "tab:det", "tab:ablation", "fig:tradeoff",
    "fig:sandwich", "tab:stability-memory", "tab:notation", "tab:budget-tests", "fig:training-graph",
    "fig:pointer-chain", "tab:parameters", "tab:training-config", "tab:ownership", "tab:baseline-provenance",
    "tab:dense-baseline-provenance", "fig:all-probes", "tab:criteria", "tab:criterion-summary", "tab:paired-recovery",
    "tab:verified-main", "tab:keep-rates", "tab:absolute-ablation", "tab:factorial", "tab:matching-ablation",
    "tab:matching-recovery", "tab:training-ablation", "fig:allocation-distributions", "tab:allocation-controls",
    "fig:recovery-distributions", "tab:register-distributions", "tab:latency-breakdown", "tab:memory",
    "tab:spatial-statistics", "fig:spatial-retention", "tab:claim-map",
)  # fmt: skip
"""Labels of the paper's tables and figures as they appear in it; what it does not have stands behind them."""


@dataclass(frozen=True)
class TablePart:
    """A table: what is known here beside what is printed.

    Attributes:
        label: LaTeX label.
        beside: its cells; None where neither this project nor the printed data have it.
        tex: its LaTeX as the workflow wrote it; empty where it is not made.
        reading: one sentence on what both say together.
    """

    label: str
    beside: TableBeside
    tex: str
    reading: str


@dataclass(frozen=True)
class FigurePart:
    """A figure.

    Attributes:
        label: LaTeX label.
        png, pdf: the drawn files; None where it is not made.
        caption: its paragraphs in Markdown, without the title.
        reading: one sentence on how much of it is measured.
    """

    label: str
    png: Path | None
    pdf: Path | None
    caption: tuple[str, ...]
    reading: str


Part = TablePart | FigurePart


def stem_of_label(label: str) -> str:
    """File stem of a LaTeX label: ``tab_cls`` for ``tab:cls``."""
    return label.replace(":", "_").replace("-", "_")


def parts_of(results: Path) -> list[Part]:
    """All tables and figures of a scale in the order of the paper, then those that it does not have.

    Args:
        results: the scale's folder.

    Raises:
        UserError: a table's files cannot be read.
    """
    tables = {table.label: table for table in tables_beside(results / "tables")}
    drawn = {f"fig:{name.removeprefix('fig_').replace('_', '-')}" for name in FIGURES}
    further = [*sorted(tables.keys() - set(ORDER)), *sorted(drawn - set(ORDER))]
    found: list[Part] = []
    for label in (*ORDER, *further):
        if label.startswith("fig:"):
            found.append(_figure(label, results / "figures"))
        elif label in tables:
            found.append(_table(tables[label], results / "tables"))
    return found


def files_of_parts(results: Path) -> list[Path]:
    """The files that the document is made from, as far as they are there."""
    found = []
    for folder, endings in (
        ("tables", (".tex", ".csv", ".compare.csv")),
        ("figures", (".png", ".pdf", ".caption.md", ".csv")),
    ):
        found += [path for path in sorted((results / folder).glob("*_*")) if "".join(path.suffixes) in endings]
    return found


def _table(beside: TableBeside, folder: Path) -> TablePart:
    stem = stem_of_label(beside.label)
    tex = folder / f"{stem}.tex"
    text = tex.read_text(encoding="utf-8") if tex.is_file() else ""
    return TablePart(beside.label, beside, text, table_reading(beside, folder / f"{stem}.compare.csv"))


def table_reading(beside: TableBeside, compare: Path) -> str:
    """How much of a table is known here, and how often its signs agree with the printed ones.

    Args:
        beside: the table.
        compare: what stands in its comparison; may be missing.
    """
    known = Counter(
        ours.status for line in beside.lines for _, ours in line.cells if line.in_paper and ours is not None
    )
    if not known and not beside.further:
        return "Nothing of it is known at this scale."
    of = f" of {beside.printed}" if beside.printed else ""
    parts = [f"{count}{of if status == Status.MEASURED else ''} {status}" for status, count in sorted(known.items())]
    parts += [f"{beside.further} measured in rows that the paper does not have"] if beside.further else []
    signs = _judged(compare) or _signs(beside)
    text = f"Cells: {', '.join(parts)}."
    if signs:
        words = ", ".join(f"{signs[kind]} {kind}" for kind in (AGREES, CONTRADICTS, UNRESOLVED) if signs[kind])
        text += f" Signs of the changes beside the printed ones: {words}."
    return text


def _judged(compare: Path) -> Counter[str]:
    """Verdicts on changes from no pruning, where the comparison has some."""
    if not compare.is_file():
        return Counter()
    try:
        frame = pd.read_csv(compare, dtype={"verdict": str, "kind": str}, keep_default_na=False)
        verdicts = frame.loc[frame["kind"] == "value", "verdict"]
    except (OSError, KeyError, ValueError, pd.errors.ParserError) as error:
        raise UserError(f"{compare}: cannot be read as a comparison ({error}); make the table again") from error
    return Counter(verdict for verdict in verdicts if verdict in (AGREES, CONTRADICTS, UNRESOLVED))


def _signs(beside: TableBeside) -> Counter[str]:
    """Changes in points beside printed ones: what their intervals settle."""
    found: Counter[str] = Counter()
    for line in beside.lines:
        for (theirs, ours), column in zip(line.cells, beside.columns, strict=True):
            if ours is not None and column.unit == "points" and (printed := _number(theirs)):
                found[_verdict(ours, printed)] += 1
    return found


def _verdict(ours: Ours, printed: float) -> str:
    if ours.low is None or ours.high is None or ours.low <= 0.0 <= ours.high:
        return UNRESOLVED
    return AGREES if (ours.low > 0) == (printed > 0) else CONTRADICTS


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _figure(label: str, folder: Path) -> FigurePart:
    stem = stem_of_label(label)
    png, pdf, words, table = (folder / f"{stem}{suffix}" for suffix in (".png", ".pdf", ".caption.md", ".csv"))
    if not png.is_file():
        return FigurePart(label, None, None, (), "It is not drawn at this scale.")
    lines = words.read_text(encoding="utf-8").split("\n\n") if words.is_file() else []
    told = ("# ", "**")  # the title, and what the document says at its beginning
    caption = tuple(line.strip() for line in lines if line.strip() and not line.startswith(told))
    frame = pd.read_csv(table) if table.is_file() and table.stat().st_size > 1 else pd.DataFrame()
    runs = {run for cell in frame.get("runs", pd.Series(dtype=str)).dropna() for run in str(cell).split()}
    reading = f"{len(frame)} numbers are drawn, from {len(runs)} runs and probes."
    if GROUPS.get(stem) == "pictures":
        reading = f"{len(frame)} parts are drawn, from passes of {len(runs)} trained runs."
    if GROUPS.get(stem) == "settings":
        reading = "A drawing of the method; nothing in it is measured."
    return FigurePart(label, png, pdf if pdf.is_file() else None, caption, reading)
