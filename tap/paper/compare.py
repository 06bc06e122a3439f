"""Measured beside reported: signs, order and rank correlation, with what contradicts the paper said plainly.

The two come from different data, models and devices, so values are only set side by side. What is compared is the sign
of every change from no pruning and the order of every pair of methods. An interval that includes zero settles nothing,
and is called unresolved rather than agreement or contradiction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from tap.config.methods import DENSE
from tap.paper.measured import Measured, Value
from tap.paper.reported import ReportedTable
from tap.paper.statistics import Interval, interval, spearman

AGREES, CONTRADICTS, UNRESOLVED = "agrees", "contradicts", "unresolved"
NOT_MEASURED, NOT_REPORTED, NO_VERDICT = "not measured", "not reported", ""

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
)
"""One line per number of a row (kind ``value``), and one per pair of rows (kind ``order``; ``other`` is the row whose
score is subtracted). The difference of a ``value`` line is that from no pruning."""


def compare(
    reported: ReportedTable, measured: Measured, scale: str, scores: Sequence[str], others: Sequence[str] = ()
) -> pd.DataFrame:
    """Sets a table's measured numbers beside the reported ones.

    Args:
        reported: the paper's table; its row keys are reducer names.
        measured: what the runs measured.
        scale: scale of the runs.
        scores: metrics that get verdicts.
        others: further columns of the reported table (throughput) that are only set side by side.

    Returns:
        Table with the columns `COLUMNS`.
    """
    lines = []
    for score in scores:
        for row in reported.rows:
            lines.append(_value_line(reported, measured, row.key, score))
        ranked = [row.key for row in reported.rows if row.key != DENSE]
        for first, second in combinations(ranked, 2):
            lines.append(_order_line(reported, measured, first, second, score))
    for row in reported.rows:
        size = measured.value(row.key, "parameters" if row.key == DENSE else "parameters_added")
        lines.append(_plain_line(reported, row.key, "size", size))
        lines += [_plain_line(reported, row.key, name, measured.value(row.key, name)) for name in others]
    return pd.DataFrame([{"scale": scale, **line} for line in lines], columns=list(COLUMNS))


def rank_correlation(frame: pd.DataFrame, metric: str, measured: Measured | None = None) -> tuple[int, Interval | None]:
    """Spearman's correlation of measured and reported scores over the rows that have both, no pruning left out.

    Args:
        frame: what `compare` returned.
        metric: the score.
        measured: where given, the interval over resamples of the images comes from it; else the bounds are NaN.

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
    parts = [measured.resampled(row, metric) for row in rows["row"]] if measured is not None else []
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(rows):
        return len(rows), Interval(estimate, math.nan, math.nan)
    resampled = spearman(np.stack(known, axis=1), printed[None])
    return len(rows), interval(estimate, resampled[~np.isnan(resampled)])


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


def _value_line(reported: ReportedTable, measured: Measured, row: str, score: str) -> dict:
    line = _plain_line(reported, row, score, measured.value(row, score))
    if row == DENSE:
        return line
    printed = reported.value(row, f"{score}_delta")
    return line | _judged(measured.difference(row, score), printed)


def _order_line(reported: ReportedTable, measured: Measured, first: str, second: str, score: str) -> dict:
    a, b = reported.cell(first, score), reported.cell(second, score)
    # Decimals, not floats: 83.3 - 83.2 must be the printed 0.1.
    printed = float(a.value - b.value) if a and b and a.value is not None and b.value is not None else None
    line = {"kind": "order", "row": first, "other": second, "metric": score, "verdict": NO_VERDICT}
    return line | _judged(measured.difference(first, score, second), printed)


def _plain_line(reported: ReportedTable, row: str, metric: str, value: Value | None) -> dict:
    has = any(column.key == metric for column in reported.columns)
    return {
        "kind": "value",
        "row": row,
        "other": "",
        "metric": metric,
        "measured": None if value is None else value.mean,
        "reported": reported.value(row, metric) if has else None,
        "verdict": NO_VERDICT if value is not None else NOT_MEASURED,
    }


def _judged(difference: Value | None, printed: float | None) -> dict:
    """Difference, bounds, sign and verdict of a line."""
    found: dict = {"reported_difference": printed}
    if difference is None:
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
    resolved = AGREES if same else CONTRADICTS
    return found | {"same_sign": same, "verdict": resolved if bounds is not None and bounds.sign else UNRESOLVED}


def _bounds(low: float | None, high: float | None) -> str:
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f", 95% interval {low:+.2f} to {high:+.2f}"
