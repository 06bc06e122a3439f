"""The comparison with the paper as Markdown that a person reads."""

from __future__ import annotations

import math
from collections import Counter

import pandas as pd

from tap.config.methods import DENSE
from tap.paper.learned import learning_note
from tap.paper.measured import Value
from tap.paper.reported import Row
from tap.paper.statistics import Interval
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tables.compare import (
    AGREES,
    CONTRADICTS,
    UNRESOLVED,
    contradictions,
    plain_columns,
    rank_correlation,
    verdicts,
)
from tap.paper.tables.latex import MISSING
from tap.paper.tables.render import runs_behind
from tap.paper.tables.table import Content, Filled, Status, number_of, status_of, text_of

_JUDGED = (
    "Data, model and device differ from the paper's, so values are not expected to be equal; signs and order are "
    "what can be compared. Intervals are 95 % paired bootstrap intervals over the test images, or the places that "
    "these show, and over seeds; one that includes zero settles nothing, nor do fewer than three seeds contradict. "
    "Reported differences come without intervals. Values of single seeds stand in parentheses."
)
_BESIDE = "Verdicts on what the paper claims of these numbers are in the audit."
_MEANINGS = {
    Status.MEASURED: "measured",
    Status.RECOMPUTED: "recomputed from settings",
    Status.STATED: "stated (a setting, or text)",
    Status.MISSING: "missing",
}


def to_markdown(filled: Filled, frame: pd.DataFrame) -> str:
    """The comparison of one table.

    Args:
        filled: the table.
        frame: what `tap.paper.tables.compare.compare` returned.
    """
    table, scale = filled.table, filled.evidence.scale
    names = {row.key: name_of(filled, row) for row in filled.layout.rows}
    lines = [f"# {table.label}: scale {scale} beside the paper", ""]
    if scale == "smoke":
        lines += [f"**{SMOKE_NOTE}**", ""]
    paper = "The paper does not have this table." if table.reported is None else f"The paper: {table.reported.caption}"
    note = "" if table.note is None else table.note(filled.evidence)
    learned = learning_note(filled.evidence, runs_behind(filled))
    for paragraph in (paper, _JUDGED if table.judged else _BESIDE, note, learned, _counts(filled)):
        lines += [paragraph, ""] if paragraph else []
    for score in table.judged:
        lines += _score_section(filled, frame, names, score)
    return "\n".join([*lines, *_plain_section(filled, names)]) + "\n"


def name_of(filled: Filled, row: Row) -> str:
    """A row as the comparison calls it: with the words that are part of its name, and whether the paper has it."""
    typeset = [key for head in filled.heads for key in head.keys if key in filled.table.words]
    words = [word for key in typeset if (word := filled.word(row, key)) is not None]
    unknown = [] if row.in_paper or filled.table.reported is None else ["(not in the paper)"]
    return " ".join([row.label, *words, *unknown])


def _counts(filled: Filled) -> str:
    """How many cells of the table are known, and how."""
    places = [
        (row.key, column) for row in filled.layout.rows for column in (*plain_columns(filled), *filled.table.judged)
    ]
    found = [(filled.cells.get(place), filled.layout.cell(*place)) for place in places]
    counts = Counter(status_of(ours) for ours, theirs in found if ours is not None or theirs is not None)
    return f"Cells: {', '.join(f'{counts[status]} {words}' for status, words in _MEANINGS.items() if counts[status])}."


def _score_section(filled: Filled, frame: pd.DataFrame, names: dict[str, str], score: str) -> list[str]:
    lines = [
        f"## {score}",
        "",
        "| method | measured | reported | measured change | reported change | sign of the change |",
        "|---|---|---|---|---|---|",
    ]
    for line in frame[(frame["kind"] == "value") & (frame["metric"] == score)].itertuples():
        change = _number(line.measured_difference, "+.2f")
        if not math.isnan(_float(line.low)):
            change += f" [{line.low:+.2f}, {line.high:+.2f}]"
        change += _seeds(filled.cells.get((str(line.row), f"{score}_delta")), "+.2f")
        cells = (
            names[str(line.row)],
            _number(line.measured, ".2f") + _seeds(filled.cells.get((str(line.row), score)), ".2f"),
            _number(line.reported, ".1f"),
            change,
            _number(line.reported_difference, "+.1f"),
            "" if line.row == DENSE else str(line.verdict),
        )
        lines.append(f"| {' | '.join(cells)} |")
    common, correlation = rank_correlation(frame, score, filled)
    lines += ["", _correlation_sentence(common, correlation), ""]
    of_score = frame[frame["metric"] == score]
    for kind, what in (("value", "Changes from no pruning"), ("order", "Pairs of methods")):
        counts = verdicts(of_score[of_score["kind"] == kind])
        lines.append(
            f"{what}: {counts[AGREES]} agree with the paper, {counts[CONTRADICTS]} contradict it, "
            f"{counts[UNRESOLVED]} are not resolved at this scale."
        )
    sentences = contradictions(of_score, names)
    lines += ["", "Contradictions with the paper:" if sentences else "No resolved contradiction with the paper.", ""]
    if sentences:
        lines += [*(f"- {sentence}" for sentence in sentences), ""]
    return lines


def _plain_section(filled: Filled, names: dict[str, str]) -> list[str]:
    """Columns without verdicts: here / in the paper."""
    columns = [column for column in filled.columns if column.key in plain_columns(filled)]
    lines = [
        *(["## Other columns", ""] if filled.table.judged else []),
        "Here / in the paper.",
        "",
        f"| | {' | '.join(column.printed for column in columns)} |",
        f"|---|{'---|' * len(columns)}",
    ]
    for row in filled.layout.rows:
        cells = []
        for column in columns:
            content, printed = filled.cells.get((row.key, column.key)), filled.layout.cell(row.key, column.key)
            whole = column.unit == "parameters" or abs(number_of(content) or 0.0) >= 1000
            ours = text_of(content) or _number(number_of(content), ",.0f" if whole else ".4g")
            cells.append(f"{ours} / {MISSING if printed is None else printed.text}")
        if row.regime != "floor":
            lines.append(f"| {names[row.key]} | {' | '.join(cells)} |")
    return lines


def _correlation_sentence(common: int, correlation: Interval | None) -> str:
    if correlation is None:
        return f"Rank correlation with the paper: needs three rows that differ, there are {common} common rows."
    text = f"Rank correlation (Spearman) with the paper over {common} common rows: {correlation.estimate:+.2f}"
    if math.isnan(correlation.low):
        return f"{text}."
    bounds = f"95 % interval over units, seeds and rows {correlation.low:+.2f} to {correlation.high:+.2f}"
    return f"{text}, {bounds}: {'the order agrees' if correlation.sign > 0 else 'the order is not resolved'}."


def _seeds(content: Content | None, form: str) -> str:
    """The values of single seeds behind a mean, in parentheses."""
    values = content.by_seed if isinstance(content, Value) else ()
    return f" ({', '.join(format(value, form) for value in values)})" if len(values) > 1 else ""


def _float(value: object) -> float:
    return math.nan if value is None or pd.isna(value) else float(value)  # type: ignore[arg-type, call-overload]


def _number(value: object, form: str) -> str:
    number = _float(value)
    return MISSING if math.isnan(number) else format(number, form)
