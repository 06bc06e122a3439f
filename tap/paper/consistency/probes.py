"""The controlled probes and the spatial statistics."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from tap.paper.consistency.rule import Finding, Rule, cell, check, difference, holds, mean, number, same
from tap.paper.reported import load_reported
from tap.paper.statements import stated

_SUMMARY, _PAIRED = "tab:criterion-summary", "tab:paired-recovery"
_ANCHORS = {"seg": ("tab:seg", "miou"), "box": ("tab:det", "box_ap"), "mask": ("tab:det", "mask_ap")}


def ranks() -> Iterator[Finding]:
    """Rank of a drop among the eleven."""
    rows = [row.key for row in load_reported(_SUMMARY).rows]
    for task in ("seg", "det"):
        drops = {key: number(cell(_SUMMARY, key, task)) for key in rows}
        for key in rows:
            rank = 1 + sum(other < drops[key] for other in drops.values())
            printed = cell(_SUMMARY, key, f"{task}_rank")
            formula = f"1 + number of smaller drops than {drops[key]}"
            yield check(f"{_SUMMARY}/{key} {task}", formula, printed, lambda rank=rank: Decimal(rank))


def spearman() -> Iterator[Finding]:
    """Spearman's correlation of the two columns of ranks."""
    rows = [row.key for row in load_reported(_SUMMARY).rows]
    n = len(rows)
    squares = sum(
        difference(*(number(cell(_SUMMARY, key, f"{task}_rank")) for task in ("seg", "det"))) ** 2 for key in rows
    )
    value = 1 - 6 * Decimal(squares) / (n * (n * n - 1))
    yield check("text/spearman", f"1 - 6 x {squares} / (11 x 120)", stated("spearman", "rho"), lambda: value)


def extremes() -> Iterator[Finding]:
    """Coverage and key redundancy are first and last, the other way round in the two dense tasks."""
    for key, task, rank in (
        ("coverage", "seg", 1),
        ("coverage", "det", 11),
        ("key_redundancy", "seg", 11),
        ("key_redundancy", "det", 1),
    ):
        printed = number(cell(_SUMMARY, key, f"{task}_rank"))
        yield holds(f"text/{key} {task}", "rank in tab:criterion-summary", str(rank), printed, printed == rank)


def paired() -> Iterator[Finding]:
    """Paired differences, and the anchors of the caption."""
    for row in load_reported(_PAIRED).rows:
        operands = (cell(_PAIRED, row.key, column) for column in ("full_offset", "stand_in"))
        printed = cell(_PAIRED, row.key, "difference")
        yield check(f"{_PAIRED}/{row.key}", "full offset - stand-in", printed, difference, *operands)
    for part, (main, score) in _ANCHORS.items():
        printed = cell(_PAIRED, f"{part}_3", "anchor")
        yield check(f"{_PAIRED}/{part} anchor", f"no pruning of {main}", printed, same, cell(main, "dense", score))


def coverage_twice() -> Iterator[Finding]:
    """Both probes measure coverage on the same layers of detection, by the caption of tab:criteria in one setting."""
    rows = [row.key for row in load_reported(_PAIRED).rows if row.key.startswith("box_")]
    printed, anchor = cell(_SUMMARY, "coverage", "det"), cell(_PAIRED, "box_3", "anchor")
    for column in ("stand_in", "full_offset"):
        scores = [cell(_PAIRED, key, column) for key in rows]
        formula = f"no pruning - mean {column} over blocks 3, 6, 9, 12"
        where = f"{_SUMMARY}/coverage det, {column}"
        yield check(where, formula, printed, lambda dense, *layers: dense - mean(*layers), anchor, *scores)


def spatial() -> Iterator[Finding]:
    """Differences that the text gives."""
    label = "tab:spatial-statistics"
    for column in load_reported(label).columns:
        operands = (cell(label, key, column.key) for key in ("tap", "cropr"))
        printed = stated("spatial-gain", column.key)
        yield check(f"text/spatial-gain {column.key}", "TAP-J - Token Cropr", printed, difference, *operands)


RULES = (
    Rule("criterion-ranks", "Ranks follow from the mean drops", ranks),
    Rule("criterion-spearman", "The correlation follows from the ranks", spearman),
    Rule("criterion-extremes", "Coverage and key redundancy trade places", extremes),
    Rule("paired-recovery", "Paired differences and anchors follow", paired),
    Rule("coverage-twice", "Criterion probe and recovery probe agree on coverage", coverage_twice),
    Rule("spatial-text", "Gains in spatial retention follow from the table", spatial),
)
