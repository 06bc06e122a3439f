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
        taken: how often all of it was measured: more than once where an earlier attempt was disturbed.
    """

    speeds: Mapping[str, Speed]
    spread: float
    taken: int

    @property
    def disturbed(self) -> bool:
        """Whether another load disturbed the last attempt as well."""
        return self.spread > DISTURBED


def measure(
    pairs: Mapping[str, tuple[Pass, Pass]],
    device: torch.device,
    *,
    warmup: int,
    iterations: int,
    rounds: int,
    repeats: int,
) -> Rounds:
    """Times each pair (reference, subject) in turn in every round; all again where the rounds differ too much.

    Args:
        pairs: by name; the references are the same dense computation, so that their times tell of the machine.
        device: which device has to finish before the clock is read.
        warmup: passes of each side before the first round.
        iterations: measured passes of each side, over all rounds.
        rounds: how many.
        repeats: how often a disturbed measurement is taken again.
    """
    for taken in range(1, repeats + 2):
        found: dict[str, list[Timing]] = {name: [] for name in pairs}
        dense = []
        for number in range(rounds):
            for name in _turned(list(pairs), number):
                warm = warmup if number == 0 else 0
                found[name].append(alternate(*pairs[name], device, warm, max(1, iterations // rounds)))
            dense.append(statistics.median(timings[-1].reference for timings in found.values()))
        result = Rounds({n: _speed(each) for n, each in found.items()}, max(dense) / min(dense) - 1, taken)
        if not result.disturbed:
            break
    return result


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
