"""ToMe: the public values, the schedule, and the merge map at dense reads."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from public_vit import logits, public_encoder, public_images, reference
from tiny_models import tiny_encoder, tiny_images

from tap.config.options.tome import TomeOptions
from tap.core.budget import keep_count
from tap.errors import UserError
from tap.reducers.base import ReducerSettings
from tap.reducers.registry import get


@pytest.mark.parametrize("proportional", [False, True])
def test_public_values(proportional):
    """Logits, states in the public order, sizes, and the copy of each token to the positions that it holds."""
    options = TomeOptions(removals=(0, 0, 32, 0, 0, 33, 0, 0, 33), proportional=proportional)
    encoder = public_encoder("tome", options, reads=(12,))
    with torch.no_grad():
        output = encoder(public_images())
        found = logits(encoder, output)
    expected = {
        name.removeprefix("prop1_" if proportional else "prop0_"): value
        for name, value in reference("tome").items()
        if name.startswith(f"prop{proportional:d}_")
    }
    torch.testing.assert_close(found, expected["logits"], rtol=0, atol=1e-4)
    torch.testing.assert_close(output.tokens.rectangle, expected["final_tokens"], rtol=0, atol=1e-4)
    assert torch.equal(output.memory["merged"].size, expected["size"][:, 1:, 0])
    holder = expected["group_of_input"][:, 1:].long()
    assert torch.equal(output.memory["merged"].holder, holder - 1)
    copied = expected["final_tokens"].gather(1, holder.unsqueeze(2).expand(-1, -1, 48))
    torch.testing.assert_close(output.grids[0], copied, rtol=0, atol=1e-4)


def schedule(patches: int, **options) -> list[int]:
    return get("tome")(ReducerSettings(**{"width": 16, "depth": 12} | options)).schedule(patches)


def test_the_same_number_in_every_block_but_the_last():
    assert schedule(196) == [9] * 10 + [8, 0]
    assert schedule(1024) == [47] * 6 + [46] * 5 + [0]
    assert schedule(196, keep_rate=1.0) == [0] * 12
    assert schedule(16, options=TomeOptions(removals=(3, 0, 2))) == [3, 0, 2] + [0] * 9


@given(patches=st.integers(1, 3000), percent=st.integers(1, 100), depth=st.integers(1, 12))
def test_schedules_end_at_k_or_say_that_halving_does_not_get_there(patches, percent, depth):
    final, least = keep_count(patches, percent / 100), patches
    for _ in range(max(1, depth - 1)):
        least -= least // 2
    options = {"keep_rate": percent / 100, "depth": depth, "layers": (1,)}
    if final < least:
        with pytest.raises(UserError, match="merges at most half"):
            schedule(patches, **options)
        return
    removals, left = schedule(patches, **options), patches
    assert depth == 1 or removals[-1] == 0
    for removed in removals:
        assert 0 <= removed <= left // 2
        left -= removed
    assert left == final


def test_given_numbers_beyond_a_half_are_cut():
    """196 patches: 98, then 49, then 25 of 49."""
    encoder = public_encoder("tome", TomeOptions(removals=(150, 150, 150)))
    with torch.no_grad():
        trace = encoder(public_images(), return_trace=True).trace
    assert trace.removals.tolist() == [[98, 49, 24]] * 2


def test_equal_patches_merge_without_a_change():
    """Without positions an image of one colour keeps one state everywhere, whatever is merged into what."""
    encoder = tiny_encoder("tome", 0.4, reads=(4,), grid=(4, 5)).double()
    with torch.no_grad():
        encoder.vit.pos_embed.zero_()
        image = tiny_images(encoder, 1)[..., :2, :2].repeat(1, 1, 4, 5)
        grid = encoder(image).grids[0][0]
    torch.testing.assert_close(grid, grid[:1].expand(20, -1), rtol=1e-6, atol=1e-6)


def test_size_counts_in_proportional_attention():
    """Equal patches: with log(size) the merged sequence attends as the whole one does, without it does not."""
    images, found = None, {}
    for proportional, rate in ((True, 1.0), (True, 0.4), (False, 0.4)):
        options = {"options": TomeOptions(proportional=proportional)}
        encoder = tiny_encoder("tome", rate, grid=(4, 5), settings=options).double()
        with torch.no_grad():
            encoder.vit.pos_embed.zero_()
            images = tiny_images(encoder, 1)[..., :2, :2].repeat(1, 1, 4, 5)
            found[proportional, rate] = encoder.pool(encoder(images))
    torch.testing.assert_close(found[True, 0.4], found[True, 1.0], rtol=1e-6, atol=1e-6)
    assert (found[False, 0.4] - found[True, 1.0]).abs().max() > 1e-3
