"""Agreement of rankings with losses: its mean and interval against a slow bootstrap, over images and over places."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from tap.paper.control_results import ControlResults
from tap.paper.statistics import DRAWS
from tap.seeds import derive_seed

RUN, GROUPS = "seg/tap/r0.50/main/s0", 9


def arrays(images: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Worths that a ranking half agrees with."""
    generator = np.random.default_rng(seed)
    worth = generator.normal(size=(images, GROUPS))
    return {"choice_worth": worth, "choice_register": worth + generator.normal(size=worth.shape)}


def agreement(*of_seeds: dict[str, np.ndarray]):
    """Of the checkpoints of some seeds."""
    runs = {RUN.replace("s0", f"s{seed}"): found for seed, found in enumerate(of_seeds)}
    return ControlResults(pd.DataFrame(), runs, "desk").agreement("register")


def slow(found: dict[str, np.ndarray]) -> tuple[float, float, float]:
    """Mean and 95 % bounds, one resample of the places after the other; without places every image is one."""
    pairs = zip(found["choice_register"], found["choice_worth"], strict=True)
    of_images = np.array([spearmanr(*pair).statistic for pair in pairs])
    places = found.get("choice_place", np.arange(len(of_images)))
    known = np.unique(places)
    generator = np.random.default_rng(derive_seed("bootstrap", "desk", "seg", "choice"))
    means = []
    for picked in generator.integers(0, len(known), size=(DRAWS, len(known))):
        means.append(np.nanmean(np.concatenate([of_images[places == known[number]] for number in picked])))
    return float(np.nanmean(of_images)), *np.quantile(means, [0.025, 0.975])


def test_the_interval_is_that_of_a_slow_bootstrap_over_images() -> None:
    value, expected = agreement(found := arrays(7)), slow(found)
    assert (value.mean, value.interval.low, value.interval.high) == pytest.approx(expected)


def test_views_of_one_place_are_drawn_together() -> None:
    found = arrays(8) | {"choice_place": np.array([4, 4, 4, 9, 9, 2, 2, 7])}
    value, expected = agreement(found), slow(found)
    assert (value.mean, value.interval.low, value.interval.high) == pytest.approx(expected)


def test_repeated_views_make_no_interval_shorter() -> None:
    """Four views of each place that say the same are as good as one of each; as images they would seem to be four."""
    once = arrays(6)
    often = {name: values.repeat(4, axis=0) for name, values in once.items()}
    one, places, images = agreement(once), agreement(often | {"choice_place": np.arange(6).repeat(4)}), agreement(often)
    assert (places.interval.low, places.interval.high) == pytest.approx((one.interval.low, one.interval.high))
    width = {name: value.interval.high - value.interval.low for name, value in (("one", one), ("images", images))}
    assert width["images"] < 0.7 * width["one"]


def test_one_place_has_no_interval() -> None:
    value = agreement(arrays(4) | {"choice_place": np.full(4, 9)})
    assert value.mean == pytest.approx(agreement(arrays(4)).mean)
    assert value.interval is None


def test_images_whose_groups_do_not_differ_are_left_out() -> None:
    found = arrays(6)
    found["choice_worth"][2] = 0.0
    rest = {name: np.delete(values, 2, axis=0) for name, values in found.items()}
    assert agreement(found).mean == pytest.approx(agreement(rest).mean)
    nothing = {name: np.zeros_like(values) for name, values in found.items()}
    assert agreement(nothing) is None


def test_seeds_are_drawn_too() -> None:
    one, other = arrays(7), arrays(7, seed=3)
    both = agreement(one, other)
    assert both.mean == pytest.approx((agreement(one).mean + agreement(other).mean) / 2)
    assert both.seeds == (0, 1)
    low, high = sorted((agreement(one).mean, agreement(other).mean))
    assert both.interval.low < low
    assert both.interval.high > high
