"""What a measured number says of a statement: when it supports, when it contradicts, and what it lacks for either.

One rule for everything that was measured on seeds and units. It asks both intervals of `tap.paper.estimate`, since the
one over resamples sees the shape of the distribution and the one of t sees how few seeds there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import stats

from tap.paper.audit.outcome import Verdict
from tap.paper.estimate import ALPHA, Precision
from tap.paper.measured import Value
from tap.paper.statistics import LEVEL, Interval

LEAST_SEEDS: Final = 3
"""Seeds of one sign without which nothing is contradicted."""
MINIMUM_EFFECT: Final = 0.1
"""Points below which a lead supports nothing, however sure it is: the smallest difference that the paper prints."""


@dataclass(frozen=True)
class Decision:
    """A verdict on one statement.

    Attributes:
        verdict: supported, contradicted or inconclusive.
        p: two-sided p-value of the distance from the threshold; None where it has none.
        reason: what it lacks for a decision, as a sentence; empty if it is decided.
    """

    verdict: Verdict
    p: float | None = None
    reason: str = ""


def above(
    found: Value, threshold: float = 0.0, printed: float | None = None, minimum: float = MINIMUM_EFFECT
) -> Decision:
    """Whether a number lies above a threshold.

    Args:
        found: mean, value of each seed, interval and precision.
        threshold: what it is claimed to lie above; a claimed margin is a threshold below 0.
        printed: what the paper prints for the number; an interval that includes it contradicts nothing.
        minimum: distance from the threshold below which a number that is claimed to be ahead supports nothing; a margin
            asks for none.
    """
    bounds, precision = found.interval, found.precision
    if bounds is None or precision is None:
        return Decision(Verdict.INCONCLUSIVE, None, "Single images are not known, so nothing is decided.")
    if math.isnan(precision.error):
        what = "seed" if precision.seeds < 2 else "place"
        return Decision(Verdict.INCONCLUSIVE, None, f"Only one {what}: how much others differ is not known.")
    p, distance = precision.p(found.mean - threshold), found.mean - threshold
    least = minimum if threshold >= 0 else 0.0
    if p <= ALPHA and bounds.low > threshold and distance >= least:
        return Decision(Verdict.SUPPORTED, p)
    below = p <= ALPHA and bounds.high < threshold
    if below and len(found.by_seed) >= LEAST_SEEDS and max(found.by_seed) < threshold and not _holds(bounds, printed):
        return Decision(Verdict.CONTRADICTED, p)
    if below:
        few = f"contradicting takes {LEAST_SEEDS} seeds of one sign and an interval without the paper's value"
        return Decision(Verdict.INCONCLUSIVE, p, f"It points the other way, and {few}.")
    if p <= ALPHA and bounds.low > threshold:
        return Decision(Verdict.INCONCLUSIVE, p, f"The effect is below the least that counts, {least:g}.")
    wanted = abs(threshold) or abs(printed or 0.0) or minimum
    return Decision(Verdict.INCONCLUSIVE, p, resolution_of(precision, wanted))


def sign_of(found: Value, printed: float) -> Decision:
    """Whether a difference has the sign of the printed one, however small it is."""
    if printed > 0:
        return above(found, 0.0, printed, minimum=0.0)
    bounds = None if found.interval is None else Interval(-found.mean, -found.interval.high, -found.interval.low)
    values = tuple(-value for value in found.by_seed)
    return above(replace(found, mean=-found.mean, interval=bounds, by_seed=values), 0.0, -printed, minimum=0.0)


def within(found: Value, target: float, tolerance: float) -> Decision:
    """Whether a number is within a tolerance of a printed one.

    Supported by an interval inside of the tolerance, contradicted by one outside, of `LEAST_SEEDS` seeds on that side.
    """
    bounds, precision = found.interval, found.precision
    if bounds is None or precision is None:
        return Decision(Verdict.INCONCLUSIVE, None, "Single images are not known, so nothing is decided.")
    if math.isnan(precision.error):
        return Decision(Verdict.INCONCLUSIVE, None, "Only one seed: how much others differ is not known.")
    low = min(bounds.low, found.mean - precision.resolution) - target
    high = max(bounds.high, found.mean + precision.resolution) - target
    p = precision.p(abs(found.mean - target) - tolerance)
    if -tolerance <= low and high <= tolerance:
        return Decision(Verdict.SUPPORTED, p)
    offsets = [value - target for value in found.by_seed]
    outside = (low > tolerance and min(offsets) > tolerance) or (high < -tolerance and max(offsets) < -tolerance)
    if outside and len(offsets) >= LEAST_SEEDS:
        return Decision(Verdict.CONTRADICTED, p)
    return Decision(Verdict.INCONCLUSIVE, p, resolution_of(precision, tolerance))


def all_above(parts: Mapping[str, Decision]) -> Decision:
    """Whether several numbers all lie above their thresholds.

    All have to be supported, so the largest p-value counts. One that is contradicted contradicts, after Holm's
    correction for having looked at all of them.
    """
    decided = [part for part in parts.values() if part.verdict in (Verdict.SUPPORTED, Verdict.CONTRADICTED)]
    adjusted = holm([part.p for part in parts.values()])
    against = [
        p
        for part, p in zip(parts.values(), adjusted, strict=True)
        if part.verdict == Verdict.CONTRADICTED and p <= ALPHA
    ]
    if against:
        return Decision(Verdict.CONTRADICTED, min(against))
    known = [part.p for part in parts.values() if part.p is not None]
    if parts and len(decided) == len(parts) and all(part.verdict == Verdict.SUPPORTED for part in decided):
        return Decision(Verdict.SUPPORTED, max(known) if known else None)
    reason = next((part.reason for part in parts.values() if part.reason), "")
    return Decision(Verdict.INCONCLUSIVE, max(known) if known else None, reason)


def over_runs(found: Mapping[str, float]) -> Value:
    """A number of single runs that no image decides, such as a share of the budget, with its t interval over seeds."""
    values = tuple(found.values())
    of_seeds = float(np.var(values, ddof=1)) / len(values) if len(values) > 1 else math.nan
    value = Value.of(dict(enumerate(values)), found)
    precision = Precision(of_seeds, 0.0, len(values), len(values))
    half = precision.half_interval
    return replace(value, interval=Interval(value.mean, value.mean - half, value.mean + half), precision=precision)


def deviation_interval(deviation: float, seeds: int) -> Interval:
    """95 % interval of a standard deviation over seeds, of normal values."""
    low, high = (
        deviation * math.sqrt((seeds - 1) / stats.chi2.ppf(q, seeds - 1)) for q in ((1 + LEVEL) / 2, (1 - LEVEL) / 2)
    )
    return Interval(deviation, low, high)


def holm(p_values: Sequence[float | None]) -> list[float]:
    """Holm's adjusted p-values; 1 where there is none, which also does not count as a test."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = largest
    return adjusted


def corrected(parts: Sequence[Decision]) -> list[Decision]:
    """The parts of a claim after Holm's correction, with adjusted p-values: looking often enough finds something."""
    adjusted = holm([part.p for part in parts])
    return [
        part if part.p is None else replace(part, p=p, verdict=Verdict.INCONCLUSIVE if p > ALPHA else part.verdict)
        for part, p in zip(parts, adjusted, strict=True)
    ]


def resolution_of(precision: Precision, wanted: float) -> str:
    """What an estimate can tell apart, and what it would take to tell `wanted` from none, as a sentence."""
    text = f"What {precision.seeds} seeds on {precision.units:,} units can tell apart is {precision.resolution:.2g}"
    if precision.resolution <= wanted or wanted <= 0:
        return f"{text}."
    needed = precision.sample_for(wanted)
    if needed is None:
        return f"{text}; {wanted:g} is out of reach."
    return f"{text}; for {wanted:g} it takes about {needed[0]:,} seeds on {needed[1]:,} units."


def _holds(bounds: Interval, printed: float | None) -> bool:
    return printed is not None and bounds.low <= printed <= bounds.high
