"""What chance makes of the verdicts: nothing to find, and an effect that the sample can resolve."""

from functools import cache

import numpy as np
import pytest

from tap.paper.audit.decision import MINIMUM_EFFECT, above, corrected
from tap.paper.audit.outcome import Verdict
from tap.paper.estimate import Estimate, Precision
from tap.paper.measured import Value

TRIALS, DRAWS = 400, 300
DECIDED = (Verdict.SUPPORTED, Verdict.CONTRADICTED)


@cache
def shares(units: int, stream: int) -> np.ndarray:
    """Share of each unit in each resample of the units."""
    return np.random.default_rng(stream).multinomial(units, np.full(units, 1 / units), size=DRAWS) / units


def measured(generator: np.random.Generator, effect: float, seeds: int, units: int, of_seeds: float, of_units: float):
    """A paired difference of crossed seeds and units, with its resamples."""
    values = effect + generator.normal(0, of_seeds, (seeds, 1)) + generator.normal(0, of_units, (1, units))
    values = values + generator.normal(0, of_units, (seeds, units))
    stream = int(generator.integers(16))
    estimate = Estimate(values.mean(axis=1), values @ shares(units, stream).T, units, str(stream))
    return Value.of(dict(enumerate(map(float, estimate.by_seed))), ["a run"], estimate)


SETTINGS = pytest.mark.parametrize(
    ("seeds", "units", "of_seeds", "of_units"),
    [(3, 20, 5.0, 2.0), (3, 20, 0.1, 5.0), (3, 500, 1.0, 10.0), (2, 20, 1.0, 5.0), (5, 100, 1.0, 5.0)],
    ids=["seeds differ", "places differ", "both", "two seeds", "five seeds"],
)


@pytest.mark.slow
@SETTINGS
def test_without_a_difference_at_most_one_verdict_in_twenty_is_wrong(seeds, units, of_seeds, of_units) -> None:
    generator = np.random.default_rng(20)
    found = [above(measured(generator, 0.0, seeds, units, of_seeds, of_units)).verdict for _ in range(TRIALS)]
    assert sum(verdict in DECIDED for verdict in found) <= 0.05 * TRIALS


@pytest.mark.slow
@pytest.mark.parametrize("parts", [6])
def test_nor_of_a_claim_with_many_parts(parts: int) -> None:
    generator = np.random.default_rng(21)
    wrong = 0
    for _ in range(TRIALS):
        decisions = [above(measured(generator, 0.0, 3, 20, 1.0, 5.0)) for _ in range(parts)]
        wrong += any(part.verdict in DECIDED for part in corrected(decisions))
    assert wrong <= 0.05 * TRIALS


@pytest.mark.slow
@SETTINGS
@pytest.mark.parametrize("sign", [1, -1])
def test_an_effect_of_twice_the_resolution_is_found(seeds, units, of_seeds, of_units, sign) -> None:
    """Four times of five; two seeds contradict nothing, whatever they say."""
    # Of the mean: what seeds and units add, each with its share of what single values add.
    noise = of_units**2 / (seeds * units)
    true = Precision(of_seeds**2 / seeds + noise, of_units**2 / units + noise, seeds, units)
    generator = np.random.default_rng(22)
    effect = sign * max(2 * true.resolution, 2 * MINIMUM_EFFECT)
    found = [above(measured(generator, effect, seeds, units, of_seeds, of_units)).verdict for _ in range(TRIALS // 4)]
    wanted = Verdict.SUPPORTED if sign > 0 else Verdict.CONTRADICTED
    assert sum(verdict == wanted for verdict in found) >= (0 if seeds < 3 and sign < 0 else 0.8 * len(found))
    assert all(verdict != Verdict.CONTRADICTED for verdict in found) or seeds >= 3


def test_a_margin_below_the_resolution_names_the_sample_that_it_takes() -> None:
    generator = np.random.default_rng(23)
    found = above(measured(generator, 0.0, 3, 20, 1.0, 5.0), -0.15)
    assert found.verdict == Verdict.INCONCLUSIVE
    assert "3 seeds on 20 units" in found.reason
    assert "for 0.15 it takes about " in found.reason


def test_a_sure_but_tiny_lead_supports_nothing() -> None:
    generator = np.random.default_rng(24)
    found = above(measured(generator, 0.05, 5, 500, 0.001, 0.01))
    assert (found.verdict, found.reason) == (Verdict.INCONCLUSIVE, "The effect is below the least that counts, 0.1.")


def test_an_interval_with_the_papers_value_contradicts_nothing() -> None:
    generator = np.random.default_rng(25)
    behind = measured(generator, -5.0, 3, 100, 0.1, 2.0)
    assert above(behind).verdict == Verdict.CONTRADICTED
    assert above(behind, 0.0, printed=round(behind.mean, 1)).verdict == Verdict.INCONCLUSIVE


def test_two_seeds_do_not_contradict() -> None:
    generator = np.random.default_rng(26)
    found = above(measured(generator, -9.0, 2, 100, 0.01, 2.0))
    assert found.verdict == Verdict.INCONCLUSIVE
    assert "3 seeds of one sign" in found.reason
