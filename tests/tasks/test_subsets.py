import numpy as np
import pytest

from tap.tasks.subsets import balanced, shuffled


def test_shuffled_is_a_fixed_permutation():
    order = shuffled(50, "data", "split")
    assert sorted(order) == list(range(50))
    assert (
        order[:5].tolist() == shuffled(50, "data", "split")[:5].tolist() != shuffled(50, "data", "other")[:5].tolist()
    )


def test_shuffled_stays_the_same_on_every_machine():
    assert shuffled(6, "pinned").tolist() == [4, 2, 0, 1, 5, 3]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 25, 99, 100, 1000])
def test_balanced_counts(count):
    groups = np.random.default_rng(0).integers(0, 10, 100)
    chosen = balanced(groups, count, "x")
    assert len(chosen) == min(count, 100) == len(np.unique(chosen))
    assert (np.diff(chosen) > 0).all()
    sizes, taken = np.bincount(groups, minlength=10), np.bincount(groups[chosen], minlength=10)
    level = taken.max(initial=0)
    assert all(t in (level, level - 1) or t == s for t, s in zip(taken, sizes, strict=True))


def test_balanced_is_nested_and_not_the_first_ones():
    groups = np.arange(1000) % 10
    small, large = balanced(groups, 50, "x"), balanced(groups, 120, "x")
    assert set(small) <= set(large)
    assert small.max() > 500


def test_balanced_takes_group_names():
    chosen = balanced(np.array(["hela", "ecoli", "hela", "cho", "hela"]), 3, "x")
    assert {1, 3} < set(chosen.tolist())


def test_balanced_of_nothing():
    assert balanced(np.array([], dtype=int), 3, "x").tolist() == []
