"""Low-rank updates: nothing at first, the stated sum afterwards, exact counts, and merging."""

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from tiny_models import randomise, tiny_encoder, tiny_images
from torch import nn

from tap.encoder.low_rank import LowRankLinear, adapted, add_low_rank, is_low_rank, merge_low_rank
from tap.errors import UserError

TRUNKS = {
    "plain": {},
    "vitdet": {"window": 2, "global_blocks": (2, 3), "relative": True},
}


def randomise_updates(vit, seed=7):
    generator = torch.Generator().manual_seed(seed)
    for _, layer in adapted(vit):
        for part in (layer.low_rank_down, layer.low_rank_up):
            with torch.no_grad():
                part.copy_(0.3 * torch.randn(part.shape, generator=generator))


@pytest.mark.parametrize("start", [0, 3])
def test_the_update_is_the_stated_sum(start):
    layer = LowRankLinear(nn.Linear(6, 9), rank=2, alpha=4.0)
    randomise(layer, 1)
    x = torch.randn(5, 6)
    weight = layer.weight.double() + (4.0 / 2) * layer.low_rank_up.double() @ layer.low_rank_down.double()
    expected = x.double() @ weight.T + layer.bias.double()
    torch.testing.assert_close(layer.rows(x, start, 9).double(), expected[:, start:], rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("rate", [0.5, 1.0])
@pytest.mark.parametrize("trunk", TRUNKS)
def test_fresh_updates_change_nothing(trunk, rate):
    encoder = tiny_encoder("tap", rate, **TRUNKS[trunk], reads=(4,))
    images = tiny_images(encoder)
    before = encoder(images)
    add_low_rank(encoder.vit, rank=2, alpha=2.0)
    after = encoder(images)
    assert torch.equal(before.grids[0], after.grids[0])
    assert before.final_counts == after.final_counts


@pytest.mark.parametrize("trunk", TRUNKS)
def test_keys_queries_and_values_by_slices_are_those_of_the_fused_map(trunk):
    """A pruned pass projects keys before queries and values; merged weights do the same without updates."""
    encoder = tiny_encoder("tap", 0.5, **TRUNKS[trunk], reads=(4,))
    add_low_rank(encoder.vit, rank=2, alpha=2.0)
    randomise_updates(encoder.vit)
    images = tiny_images(encoder)
    unmerged = encoder(images, return_trace=True)
    merge_low_rank(encoder.vit)
    merged = encoder(images, return_trace=True)
    assert not any(is_low_rank(name) for name, _ in encoder.vit.named_parameters())
    assert all(map(torch.equal, unmerged.trace.kept_indices(3), merged.trace.kept_indices(3)))
    torch.testing.assert_close(unmerged.grids[0], merged.grids[0], rtol=1e-4, atol=1e-5)


def test_the_papers_counts():
    """98,304 per block and 1,179,648 in all for ViT-B at rank 8 (tab:parameters), counted from the built module."""
    with torch.device("meta"):
        vit = VisionTransformer(num_classes=0)
        add_low_rank(vit, rank=8, alpha=8.0)
    updates = {name: parameter.numel() for name, parameter in vit.named_parameters() if parameter.requires_grad}
    assert all(is_low_rank(name) for name in updates)
    assert sum(count for name, count in updates.items() if name.startswith("blocks.0.")) == 98_304
    assert sum(updates.values()) == 1_179_648
    assert sum(updates.values()) + vit.embed_dim == 1_180_416


def test_the_base_takes_no_gradient():
    encoder = tiny_encoder("tap", 0.5).train()
    add_low_rank(encoder.vit, rank=2, alpha=2.0)
    encoder.pool(encoder(tiny_images(encoder))).square().sum().backward()
    for name, parameter in encoder.vit.named_parameters():
        assert (parameter.grad is not None) == is_low_rank(name), name


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda vit: (add_low_rank(vit, 2, 2.0), add_low_rank(vit, 2, 2.0)), "already"),
        (lambda vit: merge_low_rank(vit), "no low-rank updates"),
        (lambda vit: (add_low_rank(vit, 2, 2.0), merge_low_rank(vit), merge_low_rank(vit)), "merged before"),
        (lambda vit: add_low_rank(vit, 17, 2.0), "outside 1 to 16"),
        (lambda vit: add_low_rank(vit, 0, 2.0), "outside 1 to 16"),
    ],
)
def test_refusals(act, words):
    with pytest.raises(UserError, match=words):
        act(tiny_encoder("tap", 0.5).vit)
