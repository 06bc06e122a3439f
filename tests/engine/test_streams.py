"""The order of the samples: complete, shuffled anew each epoch, and a function of (seed, epoch, position) alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tap.config.schema import OptimizerConfig, TrainConfig
from tap.engine.streams import Stream, total_steps
from tap.errors import UserError


class Echo(torch.utils.data.Dataset):
    """Returns what it was asked for."""

    def __getitem__(self, item):
        return tuple(item)


@given(samples=st.integers(1, 60), batch=st.integers(1, 60), seed=st.integers(0, 2**31), epoch=st.integers(0, 5))
def test_an_epoch_shows_each_sample_at_most_once_and_only_full_batches(samples, batch, seed, epoch):
    batch = min(batch, samples)
    stream = Stream(samples, batch, seed)
    steps = range(epoch * stream.steps_per_epoch, (epoch + 1) * stream.steps_per_epoch)
    batches = [[item.index for item in stream.batch(step)] for step in steps]
    shown = [index for indices in batches for index in indices]
    assert all(len(indices) == batch for indices in batches)
    assert len(set(shown)) == len(shown) > samples - batch
    assert set(shown) <= set(range(samples))


def test_epochs_and_seeds_differ_in_order_and_in_the_seeds_of_the_items():
    first, second = Stream(50, 50, seed=1), Stream(50, 50, seed=2)
    draws = [first.batch(0), first.batch(1), second.batch(0)]
    assert len({tuple(item.index for item in draw) for draw in draws}) == 3
    assert len({item.seed for draw in draws for item in draw}) == 150


def test_the_order_is_pinned():
    # A change here means that every published run would train on another order.
    assert [item.index for item in Stream(10, 5, seed=0).batch(0)] == [5, 8, 7, 0, 9]


def test_a_stream_can_be_entered_at_any_step():
    straight = [Stream(23, 4, seed=3).batch(step) for step in range(15)]
    stream = Stream(23, 4, seed=3)
    assert [stream.batch(step) for step in (14, 2, 2, 7)] == [straight[step] for step in (14, 2, 2, 7)]


@pytest.mark.parametrize("world_size", [2, 3, 6])
def test_the_slices_of_all_processes_are_the_batch(world_size):
    whole = Stream(40, 12, seed=5).batch(7)
    parts = [Stream(40, 12, 5, rank, world_size).batch(7) for rank in range(world_size)]
    assert [item for part in parts for item in part] == whole
    assert {len(part) for part in parts} == {12 // world_size}


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_the_loader_gives_the_named_batches_in_order_with_any_number_of_workers(workers):
    stream = Stream(11, 3, seed=9)
    loaded = list(stream.loader(Echo(), list, start=2, stop=9, workers=workers))
    assert loaded == [[tuple(item) for item in stream.batch(step)] for step in range(2, 9)]


def test_a_batch_that_cannot_be_made_is_refused_by_name():
    with pytest.raises(UserError, match=r"train\.batch_size: 12 is more than the 10 training samples"):
        Stream(10, 12, seed=0)
    with pytest.raises(UserError, match=r"train\.batch_size: 10 cannot be shared evenly by 3 processes"):
        Stream(20, 10, seed=0, world_size=3)


@pytest.mark.parametrize(
    ("length", "unit", "steps"), [(3, "steps", 3), (2, "epochs", 14), (0.5, "epochs", 4), (0.01, "epochs", 1)]
)
def test_the_length_of_a_training_in_steps(length, unit, steps):
    train = TrainConfig(length=length, unit=unit, batch_size=1, optimizer=OptimizerConfig(lr=1))
    assert total_steps(train, steps_per_epoch=7) == steps
