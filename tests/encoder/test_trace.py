"""What a pass says about its decisions."""

from __future__ import annotations

import pytest
import torch
from tiny_models import LAYERED, tiny_encoder, tiny_images


def trace_of(encoder, images):
    with torch.no_grad():
        return encoder(images, torch.arange(len(images)), return_trace=True).trace


@pytest.mark.parametrize("method", LAYERED)
def test_trace_adds_up(method):
    encoder = tiny_encoder(method, 0.4, (1, 2, 3), grid=(4, 5), seed=1)
    trace = trace_of(encoder, tiny_images(encoder, 4))
    assert trace.removals.shape == (4, 3)
    assert (trace.final_counts + trace.removals.sum(dim=1)).tolist() == [20] * 4
    assert trace.shares.dtype == torch.float64
    torch.testing.assert_close(trace.shares.sum(dim=1), torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(trace.shares * trace.removals.sum(dim=1, keepdim=True), trace.removals.double())
    before = [set(range(20))] * 4
    for place, layer in enumerate((1, 2, 3)):
        after = [set(kept.tolist()) for kept in trace.kept_indices(layer)]
        for image in range(4):
            assert after[image] <= before[image]
            assert len(before[image] - after[image]) == trace.removals[image, place]
        before = after
    assert [len(kept) for kept in before] == trace.final_counts.tolist()


def test_a_method_without_pruning_has_no_column():
    encoder = tiny_encoder("dense")
    trace = trace_of(encoder, tiny_images(encoder, 2))
    assert trace.removals.shape == trace.shares.shape == (2, 0)
    assert trace.final_counts.tolist() == [16, 16]


@pytest.mark.parametrize("method", LAYERED)
@pytest.mark.parametrize("rate", [1.0, 0.95, 0.05])
def test_one_column_per_pruning_block_whatever_is_removed(method, rate):
    """Traces of different batches can be put together, also where a block had nothing to remove."""
    encoder = tiny_encoder(method, rate, (1, 2, 3), grid=(3, 3))
    trace = trace_of(encoder, tiny_images(encoder, 2))
    assert trace.removals.shape == trace.shares.shape == (2, 3)
    assert sorted(trace.kept) == [1, 2, 3]
    assert not trace.shares.isnan().any()


def test_columns_do_not_depend_on_batch_mates():
    """An image whose budget is spent early, alone and beside one that is not done."""
    encoder = tiny_encoder("tap", 0.4, (1, 2, 3), grid=(5, 5), seed=4)
    images = tiny_images(encoder, 8)
    together = trace_of(encoder, images)
    for image in range(8):
        alone = trace_of(encoder, images[image : image + 1])
        assert torch.equal(alone.removals[0], together.removals[image])


def test_no_trace_unless_asked():
    encoder = tiny_encoder()
    with torch.no_grad():
        assert encoder(tiny_images(encoder)).trace is None
