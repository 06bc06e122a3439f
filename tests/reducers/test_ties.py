"""Exact ties fall to the lower original index, in whatever block they come up."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny_encoder, tiny_images

LAYERS = (1, 2, 3)


@pytest.mark.parametrize("method", ["tap", "attn_topk", "evit"])
@pytest.mark.parametrize("width", [16, 48])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_equal_scores_keep_the_first_patches(method, width, dtype):
    """Without a query all logits are exactly zero."""
    encoder = tiny_encoder(method, 0.4, LAYERS, grid=(5, 5), width=width)
    with torch.no_grad():
        for block in encoder.vit.blocks:
            block.attn.qkv.weight[:width].zero_()
            block.attn.qkv.bias[:width].zero_()
    encoder = encoder.to(dtype)
    with torch.no_grad():
        trace = encoder(tiny_images(encoder, 3), return_trace=True).trace
    for layer in LAYERS:
        for kept in trace.kept_indices(layer):
            assert kept.tolist() == list(range(len(kept)))


@pytest.mark.parametrize("seed", range(4))
def test_copies_of_a_patch_go_from_the_back(seed):
    """Images tiled from few different patches, without positions: of equal patches the first ones stay.

    In float64, whose rounding the float32 ranking does not see: copies of one patch can get different last bits from
    a matrix product.
    """
    encoder = tiny_encoder("tap", 0.4, (1,), grid=(4, 5), seed=seed).double()
    with torch.no_grad():
        encoder.vit.pos_embed.zero_()
    which = torch.randint(3, (2, 4, 5), generator=torch.Generator().manual_seed(seed))
    tiles = torch.randn(3, 3, 2, 2, dtype=torch.float64)
    images = tiles[which].permute(0, 3, 1, 4, 2, 5).reshape(2, 3, 8, 10)
    with torch.no_grad():
        trace = encoder(images, return_trace=True).trace
    split = 0
    for image in range(2):
        kept = set(trace.kept_indices(1)[image].tolist())
        assert len(kept) == 8
        for tile in range(3):
            copies = (which[image].flatten() == tile).nonzero().flatten().tolist()
            stay = [patch in kept for patch in copies]
            assert stay == sorted(stay, reverse=True)
            split += any(stay) and not all(stay)
    assert split, "no tie was cut"
