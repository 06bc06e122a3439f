"""Exact ties fall to the lower original index, in whatever block they come up."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny_encoder, tiny_images

LAYERS = (1, 2, 3)


RANKING = ["tap", "attn_topk", "static", "evit", "evovit", "dynamicvit", "cropr", "diffrate"]


def level(encoder) -> None:
    """Gives all patches the same score: no query, neither in the blocks nor in a method's own scorer."""
    width = encoder.vit.embed_dim
    for block in encoder.vit.blocks:
        block.attn.qkv.weight[:width].zero_()
        block.attn.qkv.bias[:width].zero_()
    for predictor in getattr(encoder.reducer, "predictors", ()):
        predictor.out[-1].weight.zero_()
    for scorer in getattr(encoder.reducer, "scorers", ()):
        scorer.queries.zero_()


@pytest.mark.parametrize("method", RANKING)
@pytest.mark.parametrize("width", [16, 48])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_equal_scores_keep_the_first_patches(method, width, dtype):
    """Without a query all logits are exactly zero; DiffRate prefers what has been merged once, by its size."""
    encoder = tiny_encoder(method, 0.4, LAYERS, grid=(5, 5), width=width)
    with torch.no_grad():
        level(encoder)
    encoder = encoder.to(dtype)
    with torch.no_grad():
        trace = encoder(tiny_images(encoder, 3), return_trace=True).trace
    fewest = 25
    for layer in list(trace.kept)[: 1 if method == "diffrate" else None]:
        for kept in trace.kept_indices(layer):
            assert kept.tolist() == list(range(len(kept)))
            fewest = min(fewest, len(kept))
    assert fewest < 25


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
