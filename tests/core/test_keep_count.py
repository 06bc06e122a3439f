from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap.core.budget import keep_count, split_by_shares
from tap.errors import UserError

small = settings(deadline=None, max_examples=30, derandomize=True)


@pytest.mark.parametrize(
    ("patches", "rate", "kept"),
    [
        (196, 1.0, 196),
        (196, 0.7, 137),
        (196, 0.5, 98),
        (196, 0.3, 59),
        (1024, 0.3, 307),
        (4096, 0.7, 2867),
        (5, 0.1, 1),  # a half rounds up
        (10, 0.25, 3),  # where Python's round gives 2
        (90, 0.35, 32),  # 31.5 as typed, 31.499999999999996 in binary
        (50, 0.29, 15),  # 14.5 as typed, 14.499999999999998 in binary
        (3, 1e-9, 1),  # never empty
        (1, 0.4, 1),
    ],
)
def test_halves_of_the_typed_decimal_round_up(patches: int, rate: float, kept: int) -> None:
    assert keep_count(patches, rate) == kept


@small
@given(patches=st.integers(1, 5000), hundredths=st.integers(1, 100))
def test_matches_decimal_arithmetic(patches: int, hundredths: int) -> None:
    exact = (Decimal(hundredths) / 100 * patches).quantize(Decimal(1), ROUND_HALF_UP)
    kept = keep_count(patches, hundredths / 100)
    assert kept == max(1, int(exact))
    assert kept == keep_count(patches, np.float64(hundredths / 100))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, 1.0000001, float("nan"), float("inf")])
def test_refuses_rates_outside_zero_one(rate: float) -> None:
    with pytest.raises(UserError, match="keep rate"):
        keep_count(196, rate)


@pytest.mark.parametrize("patches", [0, -4])
def test_refuses_an_empty_image(patches: int) -> None:
    with pytest.raises(UserError, match="patches"):
        keep_count(patches, 0.5)


@pytest.mark.parametrize(
    ("shares", "total", "removals"),
    [
        ((26.8, 33.4, 39.8), 98, [26, 33, 39]),  # the static rule on 14x14 patches at 0.5
        ((26.8, 33.4, 39.8), 512, [137, 171, 204]),
        ((1, 1, 1), 4, [2, 1, 1]),  # equal remainders: earlier layers first
        ((1, 1, 1), 5, [2, 2, 1]),
        ((0.1, 0.2), 15, [5, 10]),
        ((0.3, 0.0, 0.7), 10, [3, 0, 7]),
        ((5,), 7, [7]),
        ((1, 2), 0, [0, 0]),
    ],
)
def test_largest_remainder(shares: tuple[float, ...], total: int, removals: list[int]) -> None:
    assert split_by_shares(shares, total) == removals


@small
@given(weights=st.lists(st.integers(0, 400), min_size=1, max_size=6).filter(any), total=st.integers(0, 4096))
def test_split_is_exact_and_within_one_of_the_quota(weights: list[int], total: int) -> None:
    removals = split_by_shares([weight / 10 for weight in weights], total)
    assert sum(removals) == total
    for weight, removal in zip(weights, removals, strict=True):
        assert abs(removal * sum(weights) - weight * total) < sum(weights)


@pytest.mark.parametrize("shares", [(), (0.0, 0.0), (1.0, -0.1), (1.0, float("nan")), (float("inf"), 1.0)])
def test_refuses_shares_without_meaning(shares: tuple[float, ...]) -> None:
    with pytest.raises(UserError, match="shares"):
        split_by_shares(shares, 10)


def test_refuses_a_negative_total() -> None:
    with pytest.raises(UserError, match="total"):
        split_by_shares((1.0, 1.0), -1)
