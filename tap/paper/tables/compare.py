"""Measured beside reported: values side by side; of judged columns also signs, order and rank correlation.

The two come from different data, models and devices, so values are only set side by side. What is judged is the sign
of every change from no pruning and the order of every pair of methods, by the rule of the audit
(`tap.paper.audit.decision`): an interval that includes zero settles nothing, nor do one or two seeds that point the
other way, which is called unresolved rather than agreement or contradiction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from tap.config.methods import DENSE
from tap.paper.audit.decision import sign_of
from tap.paper.audit.outcome import Verdict
from tap.paper.measured import Value
from tap.paper.reported import Row
from tap.paper.statistics import Interval, interval, resampled_correlation, spearman
from tap.paper.tables.table import Filled, number_of, status_of, text_of

AGREES, CONTRADICTS, UNRESOLVED = "agrees", "contradicts", "unresolved"
NOT_MEASURED, NOT_REPORTED, NO_VERDICT = "not measured", "not reported", ""
_VERDICTS = {Verdict.SUPPORTED: AGREES, Verdict.CONTRADICTED: CONTRADICTS, Verdict.INCONCLUSIVE: UNRESOLVED}

COLUMNS = (
    "scale",
    "kind",
    "row",
    "other",
    "metric",
    "measured",
    "reported",
    "measured_difference",
    "low",
    "high",
    "reported_difference",
    "same_sign",
    "verdict",
    "status",
)
"""One line per number of a row (kind ``value``), and one per pair of rows (kind ``order``; ``other`` is the row whose
score is subtracted). The difference of a ``value`` line is that from no pruning; its ``status`` says how the number is
known. A verdict of columns that are not judged is the audit's."""


def compare(filled: Filled) -> pd.DataFrame:
    """Sets a table's numbers beside the paper's.

    Returns:
        Table with the columns `COLUMNS`; words are left out.
    """
    lines = [{"scale": filled.evidence.scale, **line} for line in _lines(filled)]
    return pd.DataFrame(lines, columns=list(COLUMNS))


def plain_columns(filled: Filled) -> list[str]:
    """Columns that are only set side by side: the paper's and those that are typeset, without the judged ones."""
    judged = {*filled.table.judged, *(f"{score}_delta" for score in filled.table.judged)}
    shown = {key for head in filled.heads for key in head.keys}
    shown |= set() if filled.table.reported is None else {column.key for column in filled.table.reported.columns}
    return [column.key for column in filled.columns if column.key in shown - judged]


def rank_correlation(frame: pd.DataFrame, metric: str, filled: Filled | None = None) -> tuple[int, Interval | None]:
    """Spearman's correlation of measured and reported scores over the rows that have both, no pruning left out.

    Args:
        frame: what `compare` returned.
        metric: the score.
        filled: where given, the interval over resamples of images, seeds and rows comes from its runs; else the bounds
            are NaN.

    Returns:
        Number of common rows, and the correlation; None for fewer than three rows or a side without differences.
    """
    rows = frame[(frame["kind"] == "value") & (frame["metric"] == metric) & (frame["row"] != DENSE)]
    rows = rows.dropna(subset=["measured", "reported"])
    if len(rows) < 3:
        return len(rows), None
    printed = rows["reported"].to_numpy(float)
    estimate = float(spearman(rows["measured"].to_numpy(float), printed))
    if math.isnan(estimate):
        return len(rows), None
    measured = None if filled is None else filled.evidence.measured(filled.table.task)
    parts = [measured.estimate(row, metric) for row in rows["row"]] if measured is not None else []
    known = [part.drawn for part in parts if part is not None and part.drawn is not None]
    if not known or len(known) < len(rows):
        return len(rows), Interval(estimate, math.nan, math.nan)
    return len(rows), interval(estimate, resampled_correlation(np.stack(known, axis=1), printed[None]))


def verdicts(frame: pd.DataFrame, metric: str | None = None) -> dict[str, int]:
    """How many lines agree, contradict and stay unresolved, over the lines that could be judged."""
    if metric is not None:
        frame = frame[frame["metric"] == metric]
    return {name: int((frame["verdict"] == name).sum()) for name in (AGREES, CONTRADICTS, UNRESOLVED)}


def contradictions(frame: pd.DataFrame, names: dict[str, str]) -> list[str]:
    """Sentences, one for every resolved contradiction.

    Args:
        frame: what `compare` returned.
        names: printed name of every row key.
    """
    sentences = []
    for line in frame[frame["verdict"] == CONTRADICTS].itertuples():
        ours = f"{line.measured_difference:+.2f}{_bounds(line.low, line.high)}"
        if line.kind == "order":
            above, below = (line.row, line.other) if line.reported_difference > 0 else (line.other, line.row)
            sentences.append(
                f"{line.metric}: the paper puts {names[above]} above {names[below]} "
                f"(by {abs(line.reported_difference):.1f}); here the order is reversed "
                f"({names[line.row]} minus {names[line.other]}: {ours})."
            )
        else:
            sentences.append(
                f"{line.metric}: the paper has {names[line.row]} at {line.reported_difference:+.1f} from no pruning; "
                f"here it is {ours}."
            )
    return sentences


def _lines(filled: Filled) -> Iterator[dict]:
    rows = filled.layout.rows
    for score in filled.table.judged:
        for row in rows:
            if row.regime != "floor" or (row.key, score) in filled.cells:
                yield _value_line(filled, row, score) | _change(filled, row, score)
        ranked = [row.key for row in rows if row.key != DENSE and row.regime != "floor"]
        for first, second in combinations(ranked, 2):
            yield _order_line(filled, first, second, score)
    for row in rows:
        for column in plain_columns(filled):
            content = filled.cells.get((row.key, column))
            if text_of(content) is None and (content is not None or row.in_paper):
                yield _value_line(filled, row, column)


def _value_line(filled: Filled, row: Row, column: str) -> dict:
    content = filled.cells.get((row.key, column))
    verdict = NO_VERDICT if filled.in_paper(row, column) else NOT_REPORTED
    return {
        "kind": "value",
        "row": row.key,
        "other": "",
        "metric": column,
        "measured": number_of(content),
        "reported": filled.layout.value(row.key, column),
        "verdict": NOT_MEASURED if content is None else verdict,
        "status": str(status_of(content)),
    }


def _change(filled: Filled, row: Row, score: str) -> dict:
    """What a value line says of the change from no pruning, which that row itself and floors do not have."""
    if row.key == DENSE or row.regime == "floor":
        return {}
    delta = f"{score}_delta"
    return _judged(filled.cells.get((row.key, delta)), filled.layout.value(row.key, delta))


def _order_line(filled: Filled, first: str, second: str, score: str) -> dict:
    a, b = filled.layout.cell(first, score), filled.layout.cell(second, score)
    # Decimals, not floats: 83.3 - 83.2 must be the printed 0.1.
    printed = float(a.value - b.value) if a and b and a.value is not None and b.value is not None else None
    line = {"kind": "order", "row": first, "other": second, "metric": score, "verdict": NO_VERDICT}
    return line | _judged(filled.evidence.difference(filled.table.task, first, second, score), printed)


def _judged(difference: object, printed: float | None) -> dict:
    """Difference, bounds, sign and verdict of a line."""
    found: dict = {"reported_difference": printed}
    if not isinstance(difference, Value):
        return found | {"verdict": NOT_MEASURED}
    bounds = difference.interval
    found |= {"measured_difference": difference.mean}
    if bounds is not None:
        found |= {"low": bounds.low, "high": bounds.high}
    if printed is None:
        return found | {"verdict": NOT_REPORTED}
    if printed == 0:  # a tie at the printed precision says nothing about the order
        return found | {"verdict": NO_VERDICT}
    same = (difference.mean > 0) == (printed > 0) and difference.mean != 0
    return found | {"same_sign": same, "verdict": _VERDICTS[sign_of(difference, printed).verdict]}


def _bounds(low: float | None, high: float | None) -> str:
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f", 95% interval {low:+.2f} to {high:+.2f}"
