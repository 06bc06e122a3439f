"""What can become of a claim, and of one of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tap.paper.statistics import Interval


class Verdict(StrEnum):
    """What the measurements say of a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Outcome:
    """What one predicate found.

    Attributes:
        verdict: what it means for the claim.
        sentence: measured and expected, in words.
        value: the number that decides; None if there is none.
        low: lower bound of its 95 % interval; None without an interval.
        high: upper bound.
        seeds: seeds behind the number.
        runs: ids of the runs behind it.
        devices: what they ran on.
        missing: what has not been made, in words: quantities with the runs that should give them.
    """

    verdict: Verdict
    sentence: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def not_measured(*missing: str) -> Outcome:
    """Nothing to judge yet.

    Args:
        missing: what would have to be made.
    """
    return Outcome(Verdict.NOT_MEASURED, f"Not measured: {'; '.join(missing)}.", missing=missing)


def by_interval(interval: Interval | None, threshold: float = 0.0) -> Verdict:
    """Whether a number lies above a threshold: only an interval that leaves the threshold out decides."""
    if interval is None:
        return Verdict.INCONCLUSIVE
    if interval.low > threshold:
        return Verdict.SUPPORTED
    return Verdict.CONTRADICTED if interval.high < threshold else Verdict.INCONCLUSIVE


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """Of a claim with several parts: one contradiction contradicts it, and only all parts together support it.

    Parts whose measurements cannot be compared with the paper's settle nothing.
    """
    if Verdict.CONTRADICTED in verdicts:
        return Verdict.CONTRADICTED
    if not verdicts or all(verdict == Verdict.NOT_MEASURED for verdict in verdicts):
        return Verdict.NOT_MEASURED
    if all(verdict == Verdict.SUPPORTED for verdict in verdicts):
        return Verdict.SUPPORTED
    if set(verdicts) <= {Verdict.NOT_COMPARABLE, Verdict.NOT_MEASURED}:
        return Verdict.NOT_COMPARABLE
    return Verdict.INCONCLUSIVE
