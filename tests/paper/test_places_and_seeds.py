"""What two measured seeds of segmentation say by both levels of chance: TAP-J and no pruning, 235 tiles, 20 places."""

from pathlib import Path

import numpy as np
import pytest

from tap.paper.audit.decision import above
from tap.paper.audit.outcome import Verdict
from tap.paper.estimate import Estimate
from tap.paper.measured import Value
from tap.paper.statistics import contributions, point, replicates
from tap.seeds import derive_seed
from tap.tasks.microscopy.places import place_of

TWO_SEEDS = Path(__file__).with_name("two_seeds.npz")
"""Confusion counts of every tile and the names of the tiles, from trainings of an earlier desk scale (four classes)."""


def difference(places: np.ndarray | None) -> Estimate:
    """TAP-J minus no pruning of both seeds."""
    sides = []
    with np.load(TWO_SEEDS) as archive:
        for name in ("tap", "dense"):
            values, drawn = [], []
            for seed in (0, 1):
                arrays = {"confusion": archive[f"{name}_{seed}"].astype(np.int64)}
                found = contributions("miou", arrays if places is None else arrays | {"place": places})
                assert found is not None
                values.append(point(*found))
                drawn.append(replicates(*found, seed=derive_seed("bootstrap", "desk", "seg")))
            sides.append(Estimate(np.array(values), np.stack(drawn), len(found[0]), "seg"))
    return sides[0] - sides[1]


def test_places_and_seeds_leave_the_difference_open() -> None:
    with np.load(TWO_SEEDS) as archive:
        places = np.array([place_of(name) for name in archive["tile"]])
    assert (len(places), len(np.unique(places))) == (235, 20)
    by_tiles, by_places = difference(None), difference(places)
    assert by_places.by_seed == pytest.approx([8.99, -2.23], abs=0.01)
    bounds = [(found.low, found.high) for found in (by_tiles.over_units, by_places.over_units, by_places.interval)]
    assert bounds[0] == pytest.approx((0.8, 5.8), abs=0.1), "every tile by itself, these two seeds"
    assert bounds[1] == pytest.approx((-8.5, 8.2), abs=0.3), "places by themselves"
    assert bounds[2] == pytest.approx((-9.0, 15.4), abs=0.6), "places, and seeds as well"
    found = Value.of({0: 8.99, 1: -2.23}, ["runs"], by_places)
    assert above(found).verdict == Verdict.INCONCLUSIVE
    assert by_places.precision.p(by_places.value) > 0.3
