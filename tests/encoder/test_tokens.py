"""Dropping patches from a packed batch, against lists."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tap.encoder.tokens import Tokens


def as_lists(tokens: Tokens) -> list[tuple[list[int], list[int], list[list[float]]]]:
    """(prefix states, original indices, patch states) of each image."""
    found, start = [None] * tokens.layout.batch, 0
    for image in tokens.layout.order:
        count, prefix = tokens.layout.counts[image], tokens.layout.prefix
        rows = tokens.x[start : start + prefix + count].tolist()
        found[image] = (rows[:prefix], tokens.index[image, :count].tolist(), rows[prefix:])
        assert tokens.index[image, count:].eq(tokens.index[image, count - 1]).all(), "padding repeats the last patch"
        start += prefix + count
    assert start == len(tokens.x)
    return found


@settings(deadline=None, max_examples=40)
@given(
    data=st.data(),
    prefix=st.integers(0, 2),
    patches=st.integers(1, 7),
    batch=st.integers(1, 4),
    steps=st.integers(1, 3),
)
def test_survivors_against_lists(data, prefix, patches, batch, steps):
    x = torch.arange(batch * (prefix + patches) * 2.0).view(batch, prefix + patches, 2)
    tokens = Tokens.dense(x, prefix)
    assert torch.equal(tokens.rectangle, x)
    expected = as_lists(tokens)
    for _ in range(steps):
        keep = torch.zeros(tokens.index.shape, dtype=torch.bool)
        for image, count in enumerate(tokens.layout.counts):
            stay = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
            keep[image, list(stay)] = True
            head, index, states = expected[image]
            expected[image] = (head, [index[i] for i in sorted(stay)], [states[i] for i in sorted(stay)])
        before = tokens
        rows, tokens = tokens.survivors(keep, keep.sum(dim=1).tolist())
        assert as_lists(tokens) == expected
        assert torch.equal(before.x[rows], tokens.x)
        grid = tokens.grid(tokens.x)
        for image, (_, index, states) in enumerate(expected):
            assert grid[image, : len(index)].tolist() == states
            assert grid[image, len(index) :].tolist() == states[-1:] * (tokens.layout.width - len(index))


def test_order_follows_the_device():
    """By length on a CPU, where attention goes length by length; in batch order for variable-length kernels."""
    tokens = Tokens.dense(torch.randn(3, 5, 2), 1)
    keep = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 0], [1, 1, 0, 0]], dtype=torch.bool)
    assert tokens.survivors(keep, [4, 1, 2])[1].layout.order == (1, 2, 0)
    assert type(tokens.layout).build(1, [4, 1, 2], torch.device("cuda")).order == (0, 1, 2)
    assert tokens.survivors(keep, [4, 1, 2])[1].layout.runs == [(1, 2), (1, 3), (1, 5)]


@settings(deadline=None, max_examples=30)
@given(data=st.data(), prefix=st.integers(0, 2), patches=st.integers(1, 6), batch=st.integers(1, 4))
def test_pick_against_lists(data, prefix, patches, batch):
    """Any order, other counts for each image, and a second time from what is packed by then."""
    x = torch.arange(batch * (prefix + patches) * 2.0).view(batch, prefix + patches, 2)
    tokens = Tokens.dense(x, prefix)
    expected = as_lists(tokens)
    for _ in range(2):
        chosen = [
            data.draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True)) for count in tokens.layout.counts
        ]
        width = max(map(len, chosen))
        columns = torch.tensor([columns + columns[-1:] * (width - len(columns)) for columns in chosen])
        tokens = tokens.pick(columns, [len(columns) for columns in chosen])
        expected = [
            (rows, [index[column] for column in columns], [states[column] for column in columns])
            for (rows, index, states), columns in zip(expected, chosen, strict=True)
        ]
        assert as_lists(tokens) == expected
