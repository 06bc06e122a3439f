"""Estimates over seeds and units: their resamples, the error that a verdict asks for, and pairs."""

import numpy as np
import pytest
from scipy import stats

from tap.paper.estimate import ALPHA, Estimate, Precision, mean_of, over_seeds, seed_weights
from tap.paper.statistics import accuracy, replicates


def of(*seeds: np.ndarray, draws: int = 400, seed: int = 0) -> Estimate:
    """Accuracy of right and wrong images of each seed."""
    pairs = [np.stack([right, np.ones(len(right))], axis=1).astype(float) for right in seeds]
    drawn = np.stack([replicates(values, accuracy, seed=seed, draws=draws) for values in pairs])
    return Estimate(np.array([100 * right.mean() for right in seeds]), drawn, len(pairs[0]), "cls")


def test_equal_methods_differ_by_nothing() -> None:
    one = of(*(np.random.default_rng(seed).random(200) < 0.5 for seed in (0, 1, 2)))
    found = one - one
    assert (found.value, found.interval.low, found.interval.high) == (0, 0, 0)
    assert found.precision.error == 0
    assert (found.precision.p(0), found.precision.p(1), found.precision.resolution) == (1, 0, 0)


def test_pairing_shortens_the_interval() -> None:
    generator = np.random.default_rng(3)
    easy = generator.random(400) < 0.8
    better = easy | (generator.random(400) < 0.1)
    paired, unpaired = of(better) - of(easy), of(better) - of(easy[generator.permutation(400)])
    assert paired.value == pytest.approx(unpaired.value)
    widths = [found.interval.high - found.interval.low for found in (paired, unpaired)]
    assert widths[0] < 0.7 * widths[1]


def test_seeds_share_the_units_and_are_resampled_themselves() -> None:
    """Equal seeds hold no more information about the units than one; different ones widen the interval."""
    right = np.random.default_rng(4).random(300) < 0.7
    once, thrice = of(right), of(right, right, right)
    assert (thrice.interval.low, thrice.interval.high) == pytest.approx((once.interval.low, once.interval.high))
    apart = of(right, ~right, right)
    assert apart.interval.high - apart.interval.low > 2 * (apart.over_units.high - apart.over_units.low)


def test_both_levels_against_a_loop() -> None:
    generator = np.random.default_rng(6)
    estimate = of(*(generator.random(50) < 0.6 for _ in range(3)), draws=20)
    picked = np.random.default_rng(0)  # any seeds: the shares say which
    weights = seed_weights(3, 20, "cls")
    assert weights.sum(axis=0) == pytest.approx(np.ones(20))
    for draw in picked.integers(0, 20, 5):
        wanted = sum(weights[seed, draw] * estimate.resampled[seed, draw] for seed in range(3))
        assert estimate.drawn[draw] == pytest.approx(wanted)


def test_the_error_adds_up_seeds_and_units() -> None:
    """Simulated: values of seeds and units with known variances, whose mean has the error that is stated."""
    generator = np.random.default_rng(9)
    errors, means = [], []
    for trial in range(300):
        seeds, units = generator.normal(0, 2, (4, 1)), generator.normal(0, 5, (1, 40))
        values = seeds + units + generator.normal(0, 1, (4, 40))
        draws = generator.multinomial(40, np.full(40, 1 / 40), size=200) / 40
        estimate = Estimate(values.mean(axis=1), values @ draws.T, 40, str(trial % 8))
        errors.append(estimate.precision.error**2)
        means.append(estimate.value)
    assert np.mean(errors) == pytest.approx(2**2 / 4 + 5**2 / 40, rel=0.1)
    assert np.var(means) == pytest.approx(np.mean(errors), rel=0.25)


def test_the_t_test_is_the_usual_one_where_one_level_dominates() -> None:
    by_seeds = Precision(1.0, 1e-12, 3, 1000)
    assert by_seeds.p(2.0) == pytest.approx(stats.ttest_1samp([2 - 3**0.5, 2, 2 + 3**0.5], 0).pvalue)
    by_units = Precision(1e-12, 1.0, 3, 20)
    assert by_units.half_interval == pytest.approx(stats.t.ppf(0.975, 19))
    both = Precision(1.0, 1.0, 3, 20)
    assert both.half_interval**2 == pytest.approx(stats.t.ppf(0.975, 2) ** 2 + stats.t.ppf(0.975, 19) ** 2)
    assert both.p(both.half_interval) == pytest.approx(0.05)
    assert both.p(-both.resolution) == pytest.approx(ALPHA)


def test_a_sample_for_a_smaller_distance() -> None:
    precision = Precision(1.0, 1.0, 3, 20)
    seeds, units = precision.sample_for(0.5)
    assert (seeds / 3, units / 20) == pytest.approx((40.2, 40.2), rel=0.02)
    finer = Precision(3 / seeds, 20 / units, seeds, units)
    assert finer.resolution == pytest.approx(0.5, rel=0.03)
    assert finer.error < precision.error
    assert precision.sample_for(1e-6) is None
    assert Precision(float("nan"), 1.0, 1, 20).sample_for(0.1) is None


def test_one_seed_says_nothing_of_seeds() -> None:
    found = of(np.random.default_rng(0).random(50) < 0.5)
    assert found.interval is not None
    assert np.isnan(found.precision.error)
    assert np.isnan(found.precision.p(3.0))


def test_blocks_are_averaged_and_seeds_joined() -> None:
    generator = np.random.default_rng(1)
    parts = [of(generator.random(30) < 0.5) for _ in range(4)]
    joined = over_seeds([mean_of(parts[:2]), mean_of(parts[2:])])
    assert joined.by_seed == pytest.approx([np.mean([p.value for p in pair]) for pair in (parts[:2], parts[2:])])
    assert joined.resampled.shape == (2, 400)
    assert joined.units == 30
    unknown = over_seeds([parts[0], Estimate(np.ones(1), None)])
    assert (unknown.resampled, unknown.interval, unknown.precision) == (None, None, None)


def test_coverage_of_a_known_difference() -> None:
    """P(ours right) - P(theirs right) is 0.1; 95 % intervals must cover it in about 95 % of 200 data sets."""
    generator = np.random.default_rng(6)
    outcomes = np.array([[1, 1], [1, 0], [0, 1], [0, 0]])
    covered = 0
    for trial in range(200):
        pairs = outcomes[generator.choice(4, size=150, p=[0.6, 0.2, 0.1, 0.1])]
        found = of(pairs[:, 0], draws=200, seed=trial) - of(pairs[:, 1], draws=200, seed=trial)
        covered += found.interval.low <= 10.0 <= found.interval.high
    assert 0.91 <= covered / 200 <= 0.98
