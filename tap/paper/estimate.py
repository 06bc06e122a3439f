"""An estimate over seeds, resampled on two levels, and how small a difference it can tell from none.

Seeds and units (images, or places) are crossed: every seed was evaluated on the same units. So each resample draws
units once for all seeds, and draws as many seeds with replacement; the estimate on it is the mean over the drawn seeds.
The percentile interval of these is what tables and figures show. All methods of a task share both draws, which pairs
them.

A percentile interval over two or three seeds is shorter than it should be, since so few values cannot show how far
others would lie. A verdict therefore also asks for a t test of the mean, in which the variance of each level counts
with the t quantile of its own degrees of freedom (Cochran's approximation). Pooled degrees of freedom (Satterthwaite's)
would not do: where three seeds happen to lie close together they take the larger ones of the units for both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import stdtrit

from tap.paper.statistics import LEVEL, Array, Interval, interval
from tap.seeds import derive_seed

ALPHA: Final = 0.025
"""Two-sided level of a verdict: half of what the 95 % intervals leave out, since an approximate test of a few seeds
must not be wrong more than once in twenty."""
_MOST: Final = 1_000_000
"""A sample beyond this is as good as none."""
_SMALLEST: Final = 1e-12
"""p-values are not told apart below this."""


@dataclass(frozen=True)
class Precision:
    """What is known of the error of a mean over seeds and units.

    Attributes:
        of_seeds: variance of the mean that the choice of seeds makes; NaN for one seed.
        of_units: variance of the mean that the choice of units makes.
        seeds: how many.
        units: how many.
    """

    of_seeds: float
    of_units: float
    seeds: int
    units: int

    @property
    def error(self) -> float:
        """Standard error of the mean. What single images add by themselves is in both parts: rather too much."""
        return math.sqrt(self.of_seeds + self.of_units)

    @property
    def resolution(self) -> float:
        """The smallest distance that can be told from none: its p-value is `ALPHA`. NaN for one seed."""
        return self._half(ALPHA)

    @property
    def half_interval(self) -> float:
        """Half of the 95 % t interval. NaN for one seed."""
        return self._half(1 - LEVEL)

    def p(self, distance: float) -> float:
        """Two-sided p-value of a mean that lies `distance` from a number; NaN for one seed."""
        if math.isnan(self.error):
            return math.nan
        if self.error == 0:
            return float(distance == 0)
        far = abs(distance)
        if far <= self._half(1.0):
            return 1.0
        if far >= self._half(_SMALLEST):
            return _SMALLEST
        return math.exp(brentq(lambda log: self._half(math.exp(log)) - far, math.log(_SMALLEST), 0.0, rtol=1e-6))

    def _half(self, alpha: float) -> float:
        """Half of the t interval that leaves out `alpha`: both levels, each with its own quantile."""
        if math.isnan(self.error):
            return math.nan
        levels = ((self.of_seeds, self.seeds), (self.of_units, self.units))
        # `stdtrit` is SciPy's bare quantile of t; the distribution object takes a hundred times as long.
        squares = (variance * stdtrit(count - 1, 1 - alpha / 2) ** 2 for variance, count in levels if variance > 0)
        return math.sqrt(sum(squares))

    def sample_for(self, distance: float) -> tuple[int, int] | None:
        """Seeds and units with which `distance` would be the resolution; None if that is out of reach or not known.

        Both variances fall with their number; the t quantile is taken at that of infinitely many, so this is the least.
        """
        if math.isnan(self.error) or distance <= 0:
            return None
        factor = (float(stats.norm.isf(ALPHA / 2)) * self.error / distance) ** 2
        needed = tuple(max(2, math.ceil(count * max(factor, 1.0))) for count in (self.seeds, self.units))
        return (needed[0], needed[1]) if max(needed) < _MOST else None


@dataclass(frozen=True)
class Derived:
    """A number with its values on the resamples of units and seeds `(draws,)`; None where units are not known."""

    value: float
    drawn: Array | None

    @property
    def interval(self) -> Interval | None:
        """Percentile interval over both levels."""
        return None if self.drawn is None else interval(self.value, self.drawn)


@dataclass(frozen=True)
class Estimate:
    """A number of each seed, with its values on the same resamples of the units.

    Attributes:
        by_seed: the number of each seed `(S,)`.
        resampled: the same on resamples of the units `(S, draws)`; None where single units are not known.
        units: how many units.
        stream: names the draw of the seeds: two estimates of one stream and as many seeds share it.
    """

    by_seed: Array
    resampled: Array | None
    units: int = 0
    stream: str = ""

    def __sub__(self, other: Estimate) -> Estimate:
        known = self.resampled is not None and other.resampled is not None
        difference = self.resampled - other.resampled if known else None  # type: ignore[operator]
        return Estimate(self.by_seed - other.by_seed, difference, self.units, self.stream)

    @property
    def value(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.by_seed))

    @cached_property
    def drawn(self) -> Array | None:
        """The mean on resamples of units and seeds `(draws,)`."""
        if self.resampled is None:
            return None
        weights = seed_weights(*self.resampled.shape, self.stream)
        return (weights * self.resampled).sum(axis=0)

    @property
    def derived(self) -> Derived:
        """Its mean with the resamples of both levels."""
        return Derived(self.value, self.drawn)

    @property
    def interval(self) -> Interval | None:
        """Percentile interval over both levels."""
        return self.derived.interval

    @property
    def over_units(self) -> Interval | None:
        """Percentile interval over the units alone, for these very seeds."""
        return None if self.resampled is None else interval(self.value, self.resampled.mean(axis=0))

    @property
    def precision(self) -> Precision | None:
        """What is known of its error; None where single units are not known."""
        if self.resampled is None:
            return None
        seeds, mean = len(self.by_seed), self.resampled.mean(axis=0)
        of_seeds = float(np.var(self.by_seed, ddof=1)) / seeds if seeds > 1 else math.nan
        # A bootstrap of n units shows (n - 1) / n of the variance.
        of_units = float(np.nanvar(mean)) * self.units / (self.units - 1) if self.units > 1 else math.nan
        return Precision(of_seeds, of_units, seeds, self.units)


def mean_of(parts: Sequence[Estimate]) -> Estimate:
    """The mean of several estimates of the same seeds, such as those of several blocks."""
    known = _all_resampled(parts)
    resampled = None if known is None else np.mean(known, axis=0)
    return Estimate(np.mean([part.by_seed for part in parts], axis=0), resampled, parts[0].units, parts[0].stream)


def over_seeds(parts: Sequence[Estimate]) -> Estimate:
    """One estimate of all seeds from those of single ones."""
    known = _all_resampled(parts)
    resampled = None if known is None else np.concatenate(known)
    return Estimate(np.concatenate([part.by_seed for part in parts]), resampled, parts[0].units, parts[0].stream)


def _all_resampled(parts: Sequence[Estimate]) -> list[Array] | None:
    """The resamples of each; None where one has none."""
    known = [part.resampled for part in parts if part.resampled is not None]
    return known if known and len(known) == len(parts) else None


@lru_cache(maxsize=64)
def seed_weights(seeds: int, draws: int, stream: str) -> Array:
    """Share of each seed in each resample of the seeds `(S, draws)`."""
    generator = np.random.default_rng(derive_seed("bootstrap of seeds", stream))
    return generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws).T / seeds
