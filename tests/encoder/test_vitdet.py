"""The sparse ViTDet trunk against plain loops in float64, and what holds for its windows and its register."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from test_forward_reference import check_decisions, check_states, references, rules_of, sure
from test_gradient_reference import compare, gradients
from tiny_models import randomise, tiny_encoder, tiny_images
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from tap.encoder.attention import mean_incoming_attention
from tap.encoder.blocks import add_attention, attention_operands, project, run_block, run_mlp
from tap.encoder.tokens import Tokens
from tap.encoder.vitdet import GridAttention

TRUNK = {"depth": 5, "window": 3, "global_blocks": (2, 4)}
"""Blocks 1, 3 and 5 attend within 3 x 3 windows; blocks 2 and 4 attend globally, and a method prunes there."""

sides = st.tuples(st.integers(1, 7), st.integers(1, 5)).filter(lambda grid: grid != (1, 1))
trunks = st.fixed_dictionaries(
    {
        "window": st.integers(1, 4),
        "padded": st.booleans(),
        "relative": st.booleans(),
        "qk_norm": st.booleans(),
        "seed": st.integers(0, 10_000),
    }
)


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.filter_too_much])
@given(grid=sides, percent=st.integers(1, 100), batch=st.integers(1, 3), trunk=trunks)
def test_pass(grid, percent, batch, trunk):
    """Rectangular grids, windows that do not divide them, one survivor in a window, and windows without any."""
    encoder = tiny_encoder("tap", percent / 100, (2, 4), (1, 5), grid=grid, **TRUNK | trunk).double()
    images = tiny_images(encoder, batch, seed=trunk["seed"])
    with torch.no_grad():
        expected = references(encoder, images, rules_of(encoder))
        assume(sure(expected))
        output = encoder(images, return_trace=True)
    check_decisions(output.trace, expected, grid[0] * grid[1])
    check_states(encoder, output, expected, 1e-5)


def test_windows_with_one_survivor_and_with_none():
    encoder = tiny_encoder("tap", 0.3, (2, 4), (5,), grid=(7, 5), seed=4, **TRUNK).double()
    images = tiny_images(encoder, 3)
    with torch.no_grad():
        expected = references(encoder, images, rules_of(encoder))
        output = encoder(images, return_trace=True)
    assert sure(expected)
    check_states(encoder, output, expected, 1e-5)
    held = torch.zeros(3, 6, dtype=torch.int64)
    for image, reference in enumerate(expected):
        for patch in reference.patches:
            held[image, patch // 5 // 3 * 2 + patch % 5 // 3] += 1
    assert (held == 1).any(), "no window with one survivor came up; choose another seed"
    assert (held == 0).any(), "no empty window came up; choose another seed"


def test_another_image_size_than_the_tables_were_made_for():
    """Relative tables and absolute positions are interpolated to 4 x 6 patches."""
    encoder = tiny_encoder("tap", 0.5, (2, 4), (5,), grid=(5, 5), seed=3, **TRUNK).double()
    images = tiny_images(encoder, 2, grid=(4, 6))
    with torch.no_grad():
        resized = torch.nn.functional.interpolate(
            encoder.vit.pos_embed.mT.unflatten(2, (5, 5)).float(), (4, 6), mode="bicubic"
        )
        output = encoder(images, return_trace=True)
        encoder.vit.pos_embed = torch.nn.Parameter(resized.flatten(2).mT.double())
        expected = references(encoder, images, rules_of(encoder))
    assert sure(expected)
    check_decisions(output.trace, expected, 24)
    check_states(encoder, output, expected, 1e-5)


@pytest.mark.parametrize("trunk", [{"window": 2}, {"window": 3, "padded": True}, {"window": None, "qk_norm": True}])
def test_gradients_of_every_weight(trunk):
    """Of every table too."""
    found, wanted = gradients((2, 4), None, 3, global_blocks=(1, 2, 4), **trunk)
    compare(found, wanted, 5e-5)
    for block in range(4):
        for axis in "hw":
            gradient = found[f"vit.blocks.{block}.attn.rel_pos_{axis}"]
            assert gradient is not None
            assert gradient.any()


def test_the_register_bypasses_windows_and_its_first_decision_is_the_same_for_every_image():
    """Before block 2's attention it has met no patch: one share and one alpha, whatever the image."""
    encoder = tiny_encoder("tap", 0.4, (2, 4), (5,), grid=(6, 6), seed=9, **TRUNK)
    images = tiny_images(encoder, 4)
    entered: dict[int, Tensor] = {}

    run = encoder.reducer.run_block

    def run_block(layer, block, tokens, state):
        entered[layer] = tokens.x[tokens.layout.prefix_rows(0)]
        return run(layer, block, tokens, state)

    encoder.reducer.run_block = run_block
    with torch.no_grad():
        trace = encoder(images, return_trace=True).trace
    assert torch.equal(entered[1], encoder.reducer.controller.initial("cls", 4)[:, 0])
    assert torch.equal(entered[2], entered[1])
    assert torch.equal(entered[4], entered[3])
    assert not torch.equal(entered[3], entered[2])
    assert len(set(trace.removed[2].tolist())) == 1
    assert len(set(trace.scales[2].tolist())) == 1
    assert len(set(trace.removed[4].tolist())) == 1, "the last block takes what is left"
    assert len(set(trace.scales[4].tolist())) == 4
    kept = {tuple(indices.tolist()) for indices in trace.kept_indices(2)}
    assert len(kept) == 4, "the scores still depend on the image"


def ragged(grid: tuple[int, int], keep: list[list[int]], prefix: int = 1) -> Tokens:
    """Random tokens of images that have lost all but some patches."""
    patches = grid[0] * grid[1]
    dense = Tokens.dense(torch.randn(len(keep), prefix + patches, 16, dtype=torch.float64), prefix, grid)
    mask = torch.zeros(len(keep), patches, dtype=torch.bool)
    for image, kept in enumerate(keep):
        mask[image, kept] = True
    return dense.survivors(mask, [len(kept) for kept in keep])[1]


def trunk_block(number: int = 1, **options) -> torch.nn.Module:
    """A block of a trunk, counted from 1, as `tiny_vit` makes it."""
    encoder = tiny_encoder("dense", 1.0, (2,), **TRUNK | {"grid": (5, 7)} | options)
    return encoder.double().vit.blocks[number - 1]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_pieces_are_the_whole_window_block(padded, gated):
    """Reducers that act inside a window block get the same as from the block in one go."""
    block = trunk_block(padded=padded)
    if gated:
        block.attn.gate = torch.nn.Linear(16, 16)
        randomise(block.attn.gate, 5)
        block.double()
    tokens = ragged((5, 7), [[0, 3, 8, 34], [1], [2, 9, 30, 31, 32]])
    with torch.no_grad():
        hidden = block.norm1(tokens.x)
        parts = (project(block.attn, hidden, part) for part in ("q", "k", "v"))
        pieces = run_mlp(block, add_attention(block, tokens, hidden, *parts))
        whole = run_block(block, tokens)
    torch.testing.assert_close(pieces.x, whole.x, rtol=1e-12, atol=1e-12)
    registers = tokens.layout.prefix_rows(0)
    assert torch.equal(whole.x[registers], tokens.x[registers])
    assert torch.equal(pieces.x[registers], tokens.x[registers])


def test_windows_need_nothing_from_the_device_but_for_the_kernel_by_length():
    """The variable-length kernel gets its cumulative lengths without a host read."""
    with FakeTensorMode():
        places = ragged((5, 7), [[0, 3, 8, 34], [1, 2]]).patch_positions
        for padded in (False, True):
            windows = places.windows(3, padded)
            assert windows.frame.groups.cu_seqlens.shape == (2 * 2 * 3 + 1,)
            assert windows.frame.one_hot.shape == (len(windows.rows), 6)
            assert windows.patch_image.shape == (6,)
        with pytest.raises(DataDependentOutputException):
            _ = windows.frame.groups.runs


def test_windows_are_made_once_for_a_layout():
    tokens = ragged((5, 7), [[0, 3, 8, 34], [1, 2]])
    assert tokens.with_states(tokens.x + 1).patch_positions.windows(3) is tokens.patch_positions.windows(3)
    assert tokens.patch_positions.windows(3) is not tokens.patch_positions.windows(2)


@pytest.mark.parametrize("padded", [False, True])
def test_windows_hold_every_patch_once(padded):
    keep = [[0, 3, 8, 34], [1], [2, 9, 30, 31, 32]]
    tokens = ragged((5, 7), keep)
    windows = tokens.patch_positions.windows(3, padded)
    assert sorted(windows.patch_rows.tolist()) == sorted(tokens.layout.patch_rows.tolist())
    assert torch.equal(windows.patch_image, tokens.layout.image[windows.patch_rows])
    groups = windows.frame.groups
    assert sum(number * length for number, length in groups.runs) == len(windows.rows)
    assert int(groups.cu_seqlens[-1]) == len(windows.rows)
    assert groups.cu_seqlens.diff().amax() <= groups.longest
    assert len(windows.rows) == sum(map(len, keep)) + padded * 3 * (6 * 9 - 5 * 7)


def test_drop_path_drops_whole_images_in_windows():
    block = trunk_block(5, drop_path_rate=0.4).train()
    tokens = ragged((5, 7), [[0, 3, 8, 34], [1, 30]] * 100)
    unchanged = (run_block(block, tokens).x == tokens.x).all(dim=1)
    patches = tokens.layout.patch_rows
    image = tokens.layout.image[patches]
    dropped = torch.stack([unchanged[patches][image == number].double().mean() for number in range(200)])
    assert set(dropped.tolist()) == {0.0, 1.0}
    assert 0.08 < dropped.mean() < 0.25, "both sublayers are dropped with probability 0.16"


def test_attention_scores_have_the_relative_position_in_them():
    """Mean incoming attention of a global block from loops over all pairs (attn_topk, static rule)."""
    block = trunk_block(window=None)
    tokens = Tokens.dense(torch.randn(2, 1 + 35, 16, dtype=torch.float64), 1, (5, 7))
    with torch.no_grad():
        hidden = block.norm1(tokens.x)
        query, key = project(block.attn, hidden, "q"), project(block.attn, hidden, "k")
        found = mean_incoming_attention(*attention_operands(block, tokens, query, key))
    table_h, table_w = block.attn.tables
    for image in range(2):
        q, k = query[image * 36 : image * 36 + 36], key[image * 36 : image * 36 + 36]
        logits = torch.einsum("qhd,khd->hqk", q, k) / 8**0.5
        for a in range(35):
            for b in range(35):
                vector = table_h[a // 7 - b // 7 + 4] + table_w[a % 7 - b % 7 + 6]
                logits[:, 1 + a, 1 + b] += q[1 + a] @ vector
        torch.testing.assert_close(found[image].double(), logits.softmax(-1).mean(dim=(0, 1)), rtol=1e-5, atol=1e-7)


def test_a_block_of_the_trunk_does_not_run_on_states_alone():
    block = trunk_block()
    assert type(block.attn) is GridAttention
    with pytest.raises(TypeError, match="run_block"):
        block(torch.zeros(1, 4, 16, dtype=torch.float64))


def test_a_plain_vit_s_weights_give_a_plain_vit_without_windows():
    """Relative tables start at zero."""
    plain = tiny_encoder("tap", 0.4, (2, 4), (5,), depth=5, grid=(4, 5), class_token=False, seed=3)
    trunk = tiny_encoder("tap", 0.4, (2, 4), (5,), depth=5, grid=(4, 5), window=None, seed=5)
    tables = {name: torch.zeros_like(value) for name, value in trunk.state_dict().items() if ".rel_pos_" in name}
    trunk.load_state_dict(plain.state_dict() | tables)
    images = tiny_images(plain, 2)
    with torch.no_grad():
        for one, other in zip(plain(images).grids, trunk(images).grids, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
