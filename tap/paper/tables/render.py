"""A filled table as LaTeX and as CSV."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from tap.paper.learned import learning_note
from tap.paper.measured import Value
from tap.paper.reported import Row
from tap.paper.tables import latex
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tables.table import BEHIND, BESIDE, Content, Filled, Head, number_of, stated, status_of, text_of
from tap.paper.units import in_unit
from tap.task_facts import METRICS

CELL_COLUMNS = (
    "scale",
    "row",
    "name",
    "column",
    "unit",
    "value",
    "sd",
    "by_seed",
    "low",
    "high",
    "text",
    "n_seeds",
    "status",
    "in_paper",
    "device",
    "batch",
    "dtype",
    "kernel",
    "runs",
)
"""One line per cell, with what it takes to walk back to its runs: row and its printed name, column and unit; value, SD
over seeds, the value of each seed, and 95 % interval over units and seeds (of changes), or words; number of seeds; how
the cell is known (`tap.paper.tables.table.Status`); whether the paper has it; then where it was measured, and the ids
of all runs."""

_FACTS = ("device", "batch", "dtype", "kernel")

# No pruning and the frozen base are not among what the paper sets in bold: "the best fully fine-tuned result".
_BOLD_REGIME = "full"

_FORMS: dict[str, Callable[[float], str]] = {
    "percent": latex.score,
    "points": latex.signed,
    "points lost": lambda value: latex.signed(value).removeprefix("+"),
    "images/s": latex.rate,
    "ratio": latex.ratio,
    "parameters": lambda value: f"{value:,.0f}",
    "GB": lambda value: f"{value:.2f}",
    "ms": lambda value: f"{value:.3g}",
    "MiB": lambda value: f"{value:.3g}",
    **{
        in_unit(metric, unit): form
        for metric in METRICS.values()
        for unit, form in (("percent", "{:.2f}".format), ("points", "{:+.2f}".format), ("points lost", "{:.2f}".format))
        if in_unit(metric, unit) != unit
    },
}


def to_latex(filled: Filled) -> str:
    """The table in place of the paper's; needs only the package booktabs."""
    table = filled.table
    best = {key: _best(filled, key) for key in table.judged}
    groups: list[list[list[str]]] = []
    for row in filled.layout.rows:
        while len(groups) <= row.group:
            groups.append([])
        name = [latex.escape(row.label) + _mark(filled, row)] if table.first is not None else []
        groups[row.group].append([*name, *(_joined(filled, row, head, best) for head in filled.heads)])
    sentences = (_caption if table.caption is None else _own_caption)(filled)
    sentences += [latex.escape(text) for text in [learning_note(filled.evidence, runs_behind(filled))] if text]
    further = any(not row.in_paper for row in filled.layout.rows)
    if table.reported is None:
        sentences.append("The paper does not have this table.")
    elif further:
        sentences.append(f"{latex.NOT_IN_PAPER} not in the paper.")
    return latex.Tabular(
        label=table.label,
        caption="\n".join(sentences),
        heads=[*([] if table.first is None else [table.first]), *(head.printed for head in filled.heads)],
        groups=groups,
        origin=f"Written by the workflow; {table.name}.csv lists where each cell comes from. Do not edit.",
        tight=len(filled.heads) > 4,
        widths=tuple(head.width for head in filled.heads),
    ).render()


def to_csv(filled: Filled) -> str:
    """One line per cell, with the columns `CELL_COLUMNS`."""
    lines = []
    for row in filled.layout.rows:
        for column in filled.columns:
            content = filled.cells.get((row.key, column.key))
            if content is None and filled.layout.cell(row.key, column.key) is None:
                continue  # nobody has it
            line: dict = {"scale": filled.evidence.scale, "row": row.key, "name": row.label, "column": column.key}
            line |= {
                "unit": filled.unit(row.key, column.key),
                "value": number_of(content),
                "text": text_of(content),
                "n_seeds": 0,
            }
            line |= {"status": str(status_of(content)), "in_paper": filled.in_paper(row, column.key)}
            if isinstance(content, Value):
                bounds = content.interval
                line |= {"sd": content.sd, "n_seeds": len(content.seeds), "runs": " ".join(content.runs)}
                line |= {"by_seed": " ".join(map(repr, content.by_seed))}
                line |= {} if bounds is None else {"low": bounds.low, "high": bounds.high}
                line |= {name: "; ".join(filled.evidence.facts(content.runs, name)) for name in _FACTS}
            lines.append(line)
    return csv_text(pd.DataFrame(lines, columns=list(CELL_COLUMNS)))


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as a CSV file."""
    return frame.to_csv(index=False, lineterminator="\n")


def shown(content: Content | None, unit: str, sd: bool = False) -> str:
    """A cell as LaTeX, in the form of its unit; a standard deviation has two places."""
    words, number = text_of(content), number_of(content)
    if words is not None:
        return latex.escape(words)
    if number is None:
        return latex.MISSING
    return f"{number:.2f}" if sd else _FORMS.get(unit, "{:g}".format)(number)


def _joined(filled: Filled, row: Row, head: Head, best: dict[str, str | None]) -> str:
    """What a typeset column says of a row."""
    parts = [_part(filled, row, head, key, best) for key in head.keys]
    if set(parts) == {latex.MISSING}:
        return latex.MISSING
    if head.between == BESIDE:
        return head.between.join(parts)
    behind = [part for part in parts[1:] if part != latex.MISSING]
    if head.between == BEHIND:
        return parts[0] + "".join(f" ({part})" for part in behind)
    return head.between.join([parts[0], *behind])


def _part(filled: Filled, row: Row, head: Head, key: str, best: dict[str, str | None]) -> str:
    if key in filled.table.words:
        word = filled.word(row, key)
        return latex.MISSING if word is None else latex.escape(word)
    content, number = (found := filled.cells.get((row.key, key))), number_of(found)
    if head.form is not None and number is not None:
        return head.form(row.key, number)
    text = shown(content, filled.unit(row.key, key), sd=_deviating(key) is not None)
    return latex.bold(text) if row.regime == _BOLD_REGIME and text == best.get(key) else text


def _best(filled: Filled, key: str) -> str | None:
    """The best fully fine-tuned result as it prints; every row that prints the same is as good."""
    rows = [row.key for row in filled.layout.rows if row.regime == _BOLD_REGIME]
    numbers = [number for row in rows if (number := number_of(filled.cells.get((row, key)))) is not None]
    best = min if key in filled.table.lower_is_better else max
    return shown(stated(best(numbers)), filled.unit(rows[0], key)) if numbers else None


def _mark(filled: Filled, row: Row) -> str:
    own = "" if filled.table.mark is None else filled.table.mark(row.key)
    return own + ("" if row.in_paper or filled.table.reported is None else latex.NOT_IN_PAPER)


def _deviating(column: str) -> str | None:
    """The column whose standard deviation a column holds; None if it holds none."""
    if column.endswith("_sd"):
        return column.removesuffix("_sd")
    return column.replace("sd_", "score_") if column.startswith("sd_") else None


def runs_behind(filled: Filled) -> list[str]:
    """Ids of all runs behind the cells of a table."""
    return [run for content in filled.cells.values() if isinstance(content, Value) for run in content.runs]


def _own_caption(filled: Filled) -> list[str]:
    assert filled.table.caption is not None
    rows = [row.key for row in filled.layout.rows if row.regime != "floor"]
    return list(filled.table.caption(filled.evidence, rows))


def _caption(filled: Filled) -> list[str]:
    table, scale, cells = filled.table, filled.evidence.scale, filled.cells
    absent = [
        (row.key, column.key) for row in filled.layout.rows for column in filled.columns
        if (row.key, column.key) not in cells and filled.in_paper(row, column.key)
    ]  # fmt: skip
    of_one_seed = [key for key in absent if _is_of_one_seed(filled, *key)]
    runs = [content.runs for content in cells.values() if isinstance(content, Value)]
    devices = sorted({device for found in runs for device in filled.evidence.devices(found)})
    return [
        f"{table.title} at scale \\texttt{{{scale}}}." if table.scaled else f"{table.title}.",
        *([rf"\textbf{{{SMOKE_NOTE}}}"] if table.scaled and scale == "smoke" else []),
        *([latex.escape(table.note(filled.evidence))] if table.note is not None else []),
        *([f"Device: {latex.escape('; '.join(devices))}."] if devices else []),
        *(["Where an SD is missing: one seed, so no SD."] if of_one_seed else []),
        *([f"{latex.MISSING} has not been measured."] if len(of_one_seed) < len(absent) else []),
    ]


def _is_of_one_seed(filled: Filled, row: str, column: str) -> bool:
    """Whether a cell would hold a standard deviation of what was measured with one seed, which has none."""
    value = filled.cells.get((row, _deviating(column) or ""))
    return isinstance(value, Value) and len(value.seeds) == 1
