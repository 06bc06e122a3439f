"""What can become of a claim, and of one of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


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
        by_seed: the number of each seed, in the order of `seeds`; empty where there is none of its own.
        p: two-sided p-value of its distance from what is claimed; None where it has none.
        reason: why it decides nothing, or does not test the claim, as sentences; empty where it decides.
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
    by_seed: tuple[float, ...] = ()
    p: float | None = None
    reason: str = ""


def not_measured(*missing: str) -> Outcome:
    """Nothing to judge yet.

    Args:
        missing: what would have to be made.
    """
    return Outcome(Verdict.NOT_MEASURED, f"Not measured: {'; '.join(missing)}.", missing=missing)


def combine(verdicts: Sequence[Verdict], needed: Sequence[bool] | None = None) -> Verdict:
    """Of a claim with several parts: only all parts together support it.

    It is contradicted where a part that it needs is, or every part that decides anything. Otherwise one part that holds
    differently leaves it open, and the parts tell. Parts whose measurements cannot be compared with the paper's settle
    nothing.

    Args:
        verdicts: of the parts.
        needed: whether the claim falls with each; none of them if not given.
    """
    needed = [False] * len(verdicts) if needed is None else needed
    if any(part == Verdict.CONTRADICTED and needs for part, needs in zip(verdicts, needed, strict=True)):
        return Verdict.CONTRADICTED
    measured = [verdict for verdict in verdicts if verdict not in (Verdict.NOT_MEASURED, Verdict.NOT_COMPARABLE)]
    if measured and all(verdict == Verdict.CONTRADICTED for verdict in measured):
        return Verdict.CONTRADICTED
    if not verdicts or all(verdict == Verdict.NOT_MEASURED for verdict in verdicts):
        return Verdict.NOT_MEASURED
    if all(verdict == Verdict.SUPPORTED for verdict in verdicts):
        return Verdict.SUPPORTED
    if set(verdicts) <= {Verdict.NOT_COMPARABLE, Verdict.NOT_MEASURED}:
        return Verdict.NOT_COMPARABLE
    return Verdict.INCONCLUSIVE
