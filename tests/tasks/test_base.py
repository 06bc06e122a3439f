import random

import numpy as np
import pytest
import torch

from tap.tasks.base import Batch, Item, Splits, seeded_rng, split_item


def draw():
    return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002  libraries draw like this


def test_seed_decides_all_three_generators():
    with seeded_rng(2**62 + 5):
        first = draw()
    draw()
    with seeded_rng(2**62 + 5):
        assert draw() == first
    with seeded_rng(2**62 + 6):
        other = draw()
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_seeding_leaves_the_job_s_own_draws_alone():
    def three_draws(disturb):
        random.seed(1), torch.manual_seed(1)
        with seeded_rng(1):  # a fixed start for numpy, whose global generator stays unseeded here
            values = [draw()]
            if disturb:
                with seeded_rng(99):
                    draw()
            return [*values, draw()]

    assert three_draws(True) == three_draws(False)


def test_generators_come_back_after_an_error():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with pytest.raises(ZeroDivisionError), seeded_rng(7):
        1 / 0  # noqa: B018
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize(("item", "train"), [(3, True), (Item(3, 1), False)])
def test_a_split_refuses_the_other_kind_of_item(item, train):
    with pytest.raises(TypeError, match="dataset"):
        split_item(item, train, 10)


def test_items():
    assert split_item(Item(3, 8), True, 10) == (3, 8)
    assert split_item(np.int64(9), False, 10) == (9, None)
    for index in (10, -1):
        with pytest.raises(IndexError):
            split_item(index, False, 10)


def test_batch_moves_nested_targets():
    batch = Batch(torch.zeros(1, 1, 2, 2), [{"boxes": torch.zeros(3, 4), "name": "a"}], torch.tensor([5]), seed=9)
    moved = batch.to("meta")
    assert moved.images.device.type == moved.targets[0]["boxes"].device.type == moved.sample_ids.device.type == "meta"
    assert (moved.targets[0]["name"], moved.seed) == ("a", 9)


def test_splits_by_name():
    splits = Splits(train="t", calibration="c", validation="v")
    assert [splits.get(name) for name in ("train", "calibration", "validation")] == ["t", "c", "v"]
