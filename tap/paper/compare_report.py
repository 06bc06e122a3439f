"""The comparison with the paper as Markdown that a person reads."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from tap.config.methods import DENSE
from tap.paper.compare import AGREES, CONTRADICTS, UNRESOLVED, contradictions, rank_correlation, verdicts
from tap.paper.measured import Measured
from tap.paper.reported import ReportedTable
from tap.paper.statistics import Interval
from tap.paper.tables.caption import SMOKE_NOTE, floors

MISSING = "--"


def report(
    frame: pd.DataFrame,
    reported: ReportedTable,
    measured: Measured,
    scale: str,
    scores: Sequence[str],
    others: Sequence[str],
) -> str:
    """The comparison of one table.

    Args:
        frame: what `compare` returned.
        reported: the paper's table.
        measured: what the runs measured.
        scale: scale of the runs.
        scores: metrics with verdicts.
        others: metrics that are only set side by side.
    """
    names = {row.key: row.label for row in reported.rows}
    lines = [f"# {reported.label}: measured at scale {scale} beside the paper", ""]
    if scale == "smoke":
        lines += [f"**{SMOKE_NOTE}**", ""]
    lines += [
        f"The paper: {reported.caption}",
        "Data, model and device differ from the paper's, so values are not expected to be equal; signs and order are "
        "what can be compared. Intervals are 95 % paired bootstrap intervals over the test images; one that includes "
        "zero settles nothing. Reported differences come without intervals.",
        "",
    ]
    lines += [line for sentence in floors(measured) for line in (sentence, "")]
    for score in scores:
        lines += _score_section(frame, measured, names, score)
    lines += _plain_section(frame, reported, ["size", *others])
    return "\n".join(lines) + "\n"


def _score_section(frame: pd.DataFrame, measured: Measured, names: dict[str, str], score: str) -> list[str]:
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
        cells = (
            names[line.row],
            _number(line.measured, ".2f"),
            _number(line.reported, ".1f"),
            change,
            _number(line.reported_difference, "+.1f"),
            "" if line.row == DENSE else line.verdict,
        )
        lines.append(f"| {' | '.join(cells)} |")
    common, correlation = rank_correlation(frame, score, measured)
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


def _plain_section(frame: pd.DataFrame, reported: ReportedTable, metrics: Sequence[str]) -> list[str]:
    """Sizes and throughput, measured / reported; they depend on model and device and get no verdict."""
    rows = frame[(frame["kind"] == "value") & frame["metric"].isin(metrics)]
    lines = [
        "## Size and throughput (measured / reported)",
        "",
        f"| method | {' | '.join(metrics)} |",
        f"|---|{'---|' * len(metrics)}",
    ]
    printed = {column.key for column in reported.columns}
    for row in reported.rows:
        cells = []
        for metric in metrics:
            line = rows[(rows["row"] == row.key) & (rows["metric"] == metric)].iloc[0]
            theirs = reported.cell(row.key, metric) if metric in printed else None
            ours = _number(line["measured"], ",.0f" if metric == "size" else ",.4g")
            cells.append(f"{ours} / {MISSING if theirs is None else theirs.text}")
        lines.append(f"| {row.label} | {' | '.join(cells)} |")
    return lines


def _correlation_sentence(common: int, correlation: Interval | None) -> str:
    if correlation is None:
        return f"Rank correlation with the paper: needs three rows that differ, there are {common} common rows."
    text = f"Rank correlation (Spearman) with the paper over {common} common rows: {correlation.estimate:+.2f}"
    if math.isnan(correlation.low):
        return f"{text}."
    return f"{text}, 95 % interval over the test images {correlation.low:+.2f} to {correlation.high:+.2f}."


def _float(value: object) -> float:
    return math.nan if value is None or pd.isna(value) else float(value)  # type: ignore[arg-type]


def _number(value: object, form: str) -> str:
    number = _float(value)
    return MISSING if math.isnan(number) else format(number, form)
