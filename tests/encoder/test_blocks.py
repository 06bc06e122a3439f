"""A block in pieces is timm's block, whatever options timm has switched on."""

from __future__ import annotations

import pytest
import torch
from timm.layers.attention import Attention
from timm.models.vision_transformer import Block, ResPostBlock
from tiny_models import randomise, tiny_vit
from torch import nn

from tap.encoder.blocks import add_attention, attend_survivors, check_block, project, run_block, run_mlp
from tap.encoder.layout import Layout
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.reducers.base import ReducerSettings
from tap.reducers.dense import Dense

OPTIONS = {
    "plain": {"qkv_bias": True},
    "no_bias": {"qkv_bias": False, "proj_bias": False},
    "qk_norm": {"qkv_bias": True, "qk_norm": True},
    "scale_norms": {"scale_attn_norm": True, "scale_mlp_norm": True},
    "layer_scale": {"qkv_bias": True, "init_values": 0.1},
    "gated": {"qkv_bias": True},
}


def make_block(name: str) -> Block:
    block = Block(16, 2, **OPTIONS[name])
    if name == "gated":
        block.attn = Attention(16, 2, qkv_bias=True, gated=True)
    randomise(block, 0)
    return block.double().eval()


def ragged(counts: list[int], prefix: int = 1, by_length: bool = True) -> Tokens:
    order = tuple(sorted(range(len(counts)), key=counts.__getitem__)) if by_length else tuple(range(len(counts)))
    layout = Layout(prefix, tuple(counts), order, torch.device("cpu"))
    columns = torch.minimum(torch.arange(layout.width), torch.tensor(counts)[:, None] - 1)
    return Tokens(torch.randn(layout.rows, 16, dtype=torch.float64), layout, columns)


def pieces(block: Block, tokens: Tokens) -> Tokens:
    hidden = block.norm1(tokens.x)
    parts = (project(block.attn, hidden, part) for part in ("q", "k", "v"))
    return run_mlp(block, add_attention(block, tokens, hidden, *parts))


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize(("counts", "by_length"), [([3, 3], True), ([2, 4, 1, 4], True), ([2, 4, 1, 4], False)])
def test_pieces_are_the_block(name, counts, by_length):
    block, tokens = make_block(name), ragged(counts, by_length=by_length)
    for got in (
        run_block(block, tokens),
        pieces(block, tokens),
        run_mlp(
            block,
            attend_survivors(block, tokens, [block.norm1(tokens.x), project(block.attn, block.norm1(tokens.x), "k")]),
        ),
    ):
        start = 0
        for image in tokens.layout.order:
            stop = start + counts[image] + 1
            torch.testing.assert_close(got.x[start:stop], block(tokens.x[None, start:stop])[0])
            start = stop


def test_a_dense_block_is_timm_s_to_the_bit():
    block, tokens = make_block("plain"), ragged([4, 4])
    assert torch.equal(run_block(block, tokens).rectangle, block(tokens.rectangle))


@pytest.mark.parametrize("counts", [[3] * 400, [3, 4] * 200])
def test_drop_path_drops_whole_images(counts):
    """timm's draws one value per entry of dimension 0, which in a packed sequence is a row."""
    block = Block(16, 2, drop_path=0.4)
    randomise(block, 0)
    block = block.double().train()
    tokens = ragged(counts)
    rows = tokens.layout.image
    after = pieces(block, tokens).x if len(set(counts)) == 1 else run_block(block, tokens).x
    unchanged = (after == tokens.x).all(dim=1)
    for flags in (unchanged[rows == image] for image in range(len(counts))):
        assert flags.all() or not flags.any()
    # both sublayers are dropped with probability 0.16
    share = torch.stack([unchanged[rows == image][0] for image in range(len(counts))]).double().mean()
    assert 0.08 < share < 0.25


def test_drop_path_keeps_the_mean():
    """What stays is divided by its probability."""
    block = Block(16, 2, drop_path=0.5)
    randomise(block, 0)
    block = block.double().train()
    with torch.no_grad():
        block.mlp.fc2.weight.zero_()
        block.mlp.fc2.bias.zero_()
    counts = [2, 3] * 50
    tokens = ragged(counts)
    after = run_block(block, tokens).x - tokens.x
    block.eval()
    whole = run_block(block, tokens).x - tokens.x
    dropped = (after == 0).all(dim=1)
    torch.testing.assert_close(after[~dropped], 2 * whole[~dropped])
    assert 0.3 < dropped.double().mean() < 0.7


def test_gradients_pass_through_the_pieces():
    block, tokens = make_block("qk_norm"), ragged([2, 3])
    x = tokens.x.clone().requires_grad_()
    whole, split = (
        torch.autograd.grad(run(block, tokens.with_states(x)).x.square().sum(), [x, *block.parameters()])
        for run in (run_block, pieces)
    )
    for one, other in zip(whole, split, strict=True):
        torch.testing.assert_close(one, other)


def test_unknown_blocks_are_refused():
    check_block(make_block("plain"), "model")
    with pytest.raises(UserError, match="ResPostBlock"):
        check_block(ResPostBlock(16, 2), "model")
    vit = tiny_vit()
    vit.blocks[2].attn = nn.Identity()
    with pytest.raises(UserError, match=r"Block/Identity .*cannot be pruned"):
        SparseEncoder(vit, Dense(ReducerSettings(16, 4, layers=(4,))))
