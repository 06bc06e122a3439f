"""Fixed schedules: how many patches Random, Attn Top-K and the static rule leave, and by which score."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny_encoder, tiny_images

from tap.core.budget import keep_count
from tap.core.noise import stateless_uniform
from tap.encoder.attention import mean_incoming_attention
from tap.encoder.blocks import project
from tap.errors import UserError
from tap.reducers.base import FixedSchedule, ReducerSettings
from tap.reducers.registry import get


def schedule(method: str, patches: int, **options) -> list[int]:
    return get(method)(ReducerSettings(**{"width": 16, "depth": 12} | options)).schedule(patches)


@pytest.mark.parametrize("method", ["random", "attn_topk"])
def test_counts_of_the_public_evit(method):
    assert schedule(method, 196) == [155, 123, 98]
    assert schedule(method, 196, keep_rate=1.0) == [196, 196, 196]
    assert schedule(method, 196, keep_rate=0.001) == [19, 1, 1]


def test_shares_of_the_static_rule():
    """26.8, 33.4 and 39.8 % of 98 removals are 26.264, 32.732 and 39.004: 26, 33 and 39."""
    assert schedule("static", 196) == [170, 137, 98]
    assert schedule("static", 196, keep_rate=1.0) == [196, 196, 196]


@settings(deadline=None)
@given(patches=st.integers(1, 4096), percent=st.integers(1, 100), stages=st.integers(1, 5))
def test_schedules_never_grow_and_end_at_k(patches, percent, stages):
    options = {"keep_rate": percent / 100, "layers": tuple(range(1, stages + 1))}
    for method, more in (("attn_topk", {}), ("static", {"split": tuple(range(1, stages + 1))})):
        counts = schedule(method, patches, **options, **more)
        assert len(counts) == stages
        assert [patches, *counts] == sorted([patches, *counts], reverse=True)
        assert counts[-1] == keep_count(patches, percent / 100)


def test_the_base_is_not_in_the_registry():
    with pytest.raises(AttributeError):
        FixedSchedule.name  # noqa: B018


def test_static_needs_one_share_per_block():
    with pytest.raises(UserError, match="static_split: 3 shares for 2 pruning blocks"):
        get("static")(ReducerSettings(16, 12, layers=(3, 6)))


def test_static_keeps_what_is_attended_to_most():
    encoder = tiny_encoder("static", 0.5, (1,), grid=(3, 4)).double()
    images, block = tiny_images(encoder, 2), encoder.vit.blocks[0]
    with torch.no_grad():
        kept = encoder(images, return_trace=True).trace.kept[1]
        hidden = block.norm1(encoder.vit._pos_embed(encoder.vit.patch_embed(images)))
        score = mean_incoming_attention(project(block.attn, hidden, "q"), project(block.attn, hidden, "k"))[:, 1:]
    assert (score.masked_fill(~kept, 2).amin(dim=1) > score.masked_fill(kept, -1).amax(dim=1)).all()


def kept_by_random(ids, seed=0, images=None, layers=(1, 3), reads=()):
    from tap.encoder.recovery_buffer import RecoverySettings

    encoder = tiny_encoder(
        "random", 0.4, layers, reads, RecoverySettings(scale=1.0), grid=(4, 5), settings={"seed": seed}
    )
    images = tiny_images(encoder, len(ids)) if images is None else images
    with torch.no_grad():
        return encoder(images, torch.tensor(ids), return_trace=True).trace.kept


def test_random_is_a_function_of_seed_image_and_block():
    base = kept_by_random([3, 4])
    assert torch.equal(kept_by_random([3, 4])[3], base[3])
    assert torch.equal(kept_by_random([4, 3])[3].flip(0), base[3]), "the place in the batch does not count"
    assert not torch.equal(kept_by_random([3, 5])[3][1], base[3][1])
    assert not torch.equal(kept_by_random([3, 4], seed=1)[3], base[3])
    assert torch.equal(kept_by_random([3, 4], images=torch.randn(2, 3, 8, 10))[3], base[3]), "nor do the pixels"
    assert torch.equal(kept_by_random([3, 4], reads=(4,))[3], base[3]), "nor does a dense head"
    later = kept_by_random([3, 4], layers=(2, 3))
    assert not torch.equal(later[2], base[1]), "every block draws anew"


def test_random_keeps_the_largest_draws():
    kept = kept_by_random([3, 4], layers=(2,))[2]
    draw = stateless_uniform(0, torch.tensor([3, 4]), 2, 20)
    assert (draw.masked_fill(~kept, 2).amin(dim=1) > draw.masked_fill(kept, -1).amax(dim=1)).all()


def test_random_is_uniform():
    kept = kept_by_random(list(range(2000)), layers=(1,))[1]
    assert kept.float().mean(dim=0).sub(0.4).abs().max() < 0.05
