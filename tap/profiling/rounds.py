"""Speeds in repeated rounds, methods in another order each time: a ratio with an interval (Sec. Efficiency)."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from scipy.stats import t as student

from tap.profiling.throughput import Timing, alternate

DISTURBED = 0.15
"""Share by which the dense times of the rounds may differ before another load is blamed."""

Pass = Callable[[], object]


@dataclass(frozen=True)
class Speed:
    """One side beside its reference, over all rounds.

    Attributes:
        seconds, reference: medians per pass.
        ratio: mean over rounds of reference / subject.
        low, high: 95 % interval of the mean ratio, from the rounds by Student's t.
        rounds: the ratio of each round.
    """

    seconds: float
    reference: float
    ratio: float
    low: float
    high: float
    rounds: tuple[float, ...]


@dataclass(frozen=True)
class Rounds:
    """What all rounds gave.

    Attributes:
        speeds: by the subject's name.
        spread: largest over smallest median dense time of a round, less 1.
        taken: rounds that were measured: more than asked for where some were disturbed and replaced.
    """

    speeds: Mapping[str, Speed]
    spread: float
    taken: int

    @property
    def disturbed(self) -> bool:
        """Whether those that are left are disturbed as well."""
        return self.spread > DISTURBED


@dataclass(frozen=True, eq=False)
class _Round:
    """Every subject once, each in turn with the reference."""

    timings: Mapping[str, Timing]

    @property
    def dense(self) -> float:
        """Median time of the reference: what the machine does at this time."""
        return statistics.median(timing.reference for timing in self.timings.values())


def measure(
    pairs: Mapping[str, tuple[Pass, Pass]],
    device: torch.device,
    *,
    warmup: int,
    iterations: int,
    rounds: int,
    repeats: int,
) -> Rounds:
    """Times each pair (reference, subject) in turn in every round.

    Where the reference's times of the rounds differ too much, the slowest goes, since a load can only slow down, and
    another round is taken; which one goes is decided by the reference alone, never by what a subject gained.

    Args:
        pairs: by name; the references are the same dense computation, so that their times tell of the machine.
        device: which device has to finish before the clock is read.
        warmup: passes of each side before the first round.
        iterations: measured passes of each side, over all rounds.
        rounds: how many.
        repeats: how many disturbed rounds are replaced at most.
    """

    def take(number: int) -> _Round:
        warm = 0 if number else warmup
        order = _turned(list(pairs), number)
        return _Round({n: alternate(*pairs[n], device, warm, max(1, iterations // rounds)) for n in order})

    kept, taken = [take(number) for number in range(rounds)], rounds
    while _spread(kept) > DISTURBED and taken < rounds + repeats:
        kept.remove(max(kept, key=lambda each: each.dense))
        kept.append(take(taken))
        taken += 1
    return Rounds({n: _speed([each.timings[n] for each in kept]) for n in pairs}, _spread(kept), taken)


def _spread(rounds: Sequence[_Round]) -> float:
    """Largest over smallest dense time, less 1."""
    dense = [each.dense for each in rounds]
    return max(dense) / min(dense) - 1


def _turned(names: Sequence[str], number: int) -> Sequence[str]:
    """The order of a round: turned from one to the next, backwards in every second pair of rounds."""
    start = number * max(1, len(names) // 3) % len(names)
    turned = [*names[start:], *names[:start]]
    return turned[::-1] if number // 2 % 2 else turned


def _speed(timings: Sequence[Timing]) -> Speed:
    ratios = [timing.ratio for timing in timings]
    mean, half = statistics.mean(ratios), 0.0
    if len(ratios) > 1:
        half = float(student.ppf(0.975, len(ratios) - 1)) * statistics.stdev(ratios) / len(ratios) ** 0.5
    return Speed(
        statistics.median(timing.subject for timing in timings),
        statistics.median(timing.reference for timing in timings),
        mean,
        mean - half,
        mean + half,
        tuple(ratios),
    )
