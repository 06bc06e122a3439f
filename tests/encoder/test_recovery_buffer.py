"""The recovery buffer: what is stored, how large it is, and what it must not touch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import LAYERED, common_recovery, tiny_encoder, tiny_images

from tap.encoder.recovery_buffer import RecoverySettings

WIDTH = 16


def formula(removed: int, layers: int, scalar: int, pointer: int = 4, images: int = 1) -> int:
    """R (d b_s + b_p) + M b_s, with one scale per image and layer."""
    return removed * (WIDTH * scalar + pointer) + images * layers * scalar


@pytest.mark.parametrize("method", LAYERED)
@pytest.mark.parametrize(("precision", "scalar"), [("autocast", 2), ("bfloat16", 2), ("float32", 4), ("float64", 8)])
def test_bytes_are_the_paper_s_formula(method, precision, scalar):
    encoder = tiny_encoder(method, 0.4, (1, 2, 3), (4,), common_recovery(method), grid=(4, 5), seed=5)
    if precision not in ("autocast", "float32"):
        encoder = encoder.to(getattr(torch, precision))
    images = tiny_images(encoder, 3)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
        buffer = encoder(images).recovery
    assert buffer.bytes == formula(removed=3 * 12, layers=3, scalar=scalar, images=3)
    stored = sum(
        part.untyped_storage().nbytes()
        for record in buffer.records
        for part in (record.pointer, record.offset, record.scale)
    )
    assert stored == buffer.bytes, "a record keeps a larger tensor alive"
    assert {record.pointer.dtype for record in buffer.records} == {torch.int32}
    assert {record.offset.dtype for record in buffer.records} == {record.scale.dtype for record in buffer.records}


@settings(deadline=None, max_examples=15)
@given(
    grid=st.tuples(st.integers(1, 5), st.integers(2, 5)),
    percent=st.integers(1, 100),
    batch=st.integers(1, 3),
    seed=st.integers(0, 999),
)
def test_bytes_for_any_size_and_rate(grid, percent, batch, seed):
    encoder = tiny_encoder("tap", percent / 100, (1, 2, 3), (4,), grid=grid, seed=seed)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        output = encoder(tiny_images(encoder, batch, seed=seed), return_trace=True)
    removed = int(output.trace.removals.sum())
    layers = int(output.trace.removals.any(dim=0).sum())
    assert removed == batch * (grid[0] * grid[1] - int(output.trace.final_counts[0]))
    assert output.recovery.bytes == formula(removed, layers, 2, images=batch)


@pytest.mark.parametrize("method", LAYERED)
def test_records_describe_the_removals(method):
    """Survivors have no record; every pointer names a patch that its layer kept; offsets are differences of states."""
    encoder = tiny_encoder(method, 0.3, (1, 2, 4), (4,), common_recovery(method), grid=(5, 5), seed=1).double()
    with torch.no_grad():
        output = encoder(tiny_images(encoder, 3), torch.arange(3), return_trace=True)
    buffer, trace = output.recovery, output.trace
    assert [record.layer for record in buffer.records] == [1, 2, 4]
    for record in buffer.records:
        where = (buffer.removed_at == record.layer).nonzero()
        assert where.shape[0] == len(record.pointer) == len(record.offset) == trace.removed[record.layer].sum()
        for (image, position), pointer in zip(where.tolist(), record.pointer.tolist(), strict=True):
            assert not trace.kept[record.layer][image, position]
            assert trace.kept[record.layer][image, pointer]
    assert torch.equal(buffer.removed_at == 0, trace.kept[4])


def run(matching="key", scale="learned", reads=(1, 2, 4), seed=0, zero_fill=False, batch=3):
    recovery = RecoverySettings(scale, matching, zero_fill, seed)
    encoder = tiny_encoder("tap", 0.3, (1, 2, 3), reads, recovery, grid=(5, 5), seed=4).double()
    with torch.no_grad():
        return encoder(tiny_images(encoder, batch), torch.arange(batch), return_trace=True)


def test_every_switch_changes_the_removed_positions_only():
    base = run()
    variants = {
        "token": run("token"),
        "spatial": run("spatial"),
        "score": run("score"),
        "random": run("random"),
        "random, other seed": run("random", seed=1),
        "final": run("final"),
        "stand-in only": run(scale=0.0),
        "full offset": run(scale=1.0),
        "zero fill": run(zero_fill=True),
    }
    assert len(set(base.trace.removed[2].tolist())) > 1, "the counts should differ"
    last = [output.grids[-1] for output in (base, *variants.values())]
    for name, output in variants.items():
        assert torch.equal(output.tokens.x, base.tokens.x), name
        assert torch.equal(output.trace.removals, base.trace.removals), name
        for read, layer in enumerate((1, 2, 3)):
            kept = base.trace.kept[layer]
            assert torch.equal(output.grids[read][kept], base.grids[read][kept]), name
        assert all(torch.equal(output.trace.kept[layer], base.trace.kept[layer]) for layer in (1, 2, 3)), name
    for one, grid in enumerate(last):
        for other in last[:one]:
            assert not torch.allclose(grid, other), f"variants {one} and an earlier one agree"


def test_direct_match_has_no_chain():
    """Direct matching points at final survivors; with key cosine some pointers go through a patch removed later."""
    chain, direct = run("key"), run("final")
    gone_later = [
        not chain.trace.kept[3][image, pointer]
        for record in chain.recovery.records
        for (image, _), pointer in zip(
            (chain.recovery.removed_at == record.layer).nonzero().tolist(), record.pointer.tolist(), strict=True
        )
    ]
    assert any(gone_later)
    assert not direct.recovery.records, "nothing is decided before the read point is known"


def test_a_read_at_the_removal_layer_gives_back_the_removed_feature():
    """Full offset before anything has moved: stand-in plus offset is the removed feature itself, up to one block."""
    encoder = tiny_encoder("tap", 0.4, (2,), (2,), RecoverySettings(scale=1.0), grid=(4, 4)).double()
    with torch.no_grad():
        for part in (encoder.vit.blocks[1].attn.proj, encoder.vit.blocks[1].mlp.fc2):
            part.weight.zero_()
            part.bias.zero_()  # the block changes nothing
        images = tiny_images(encoder, 2)
        vit = encoder.vit
        entering = vit.blocks[0]
        before = []
        entering.register_forward_hook(lambda _module, _inputs, out: before.append(out))
        grid = encoder(images).grids[0]
    torch.testing.assert_close(grid, before[0][:, 2:])


@pytest.mark.parametrize("method", ["dense", *LAYERED])
def test_reads_change_nothing_in_the_encoder(method):
    """Reconstructed features never re-enter: the same states with and without read points."""
    recovery = common_recovery(method)
    reading = tiny_encoder(method, 0.4, (2, 4), (1, 2, 3, 4), recovery, grid=(4, 5), seed=9).double()
    plain = tiny_encoder(method, 0.4, (2, 4), (), recovery, grid=(4, 5), seed=9).double()
    images, ids = tiny_images(reading, 3), torch.arange(3)
    with torch.no_grad():
        one, other = reading(images, ids, return_trace=True), plain(images, ids, return_trace=True)
    assert len(one.grids) == 4
    assert not other.grids
    assert torch.equal(one.tokens.index, other.tokens.index)
    torch.testing.assert_close(one.tokens.x, other.tokens.x, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("method", ["dense", *LAYERED])
def test_at_rate_1_the_head_s_input_is_the_dense_model_s(method):
    encoder = tiny_encoder(method, 1.0, (1, 3), (1, 2, 3, 4), common_recovery(method), grid=(3, 5))
    images = tiny_images(encoder, 2)
    dense = []
    for block in encoder.vit.blocks:
        block.register_forward_hook(lambda _module, _inputs, out: dense.append(out[:, 1:]))
    with torch.no_grad():
        encoder.vit.forward_features(images)
        expected = list(dense)
        output = encoder(images)
    assert all(map(torch.equal, output.grids, expected))
    assert output.recovery.bytes == 0


def test_a_dense_loss_reaches_removed_features_and_the_scale():
    """Even with the surrogate's path cut, through offset, endpoint and alpha (Sec. Stand-in matching)."""
    encoder = tiny_encoder("tap", 0.3, (2, 3), (4,), grid=(4, 4)).double()  # evaluation mode: no mask
    images = tiny_images(encoder, 1).requires_grad_()
    output = encoder(images)
    gone = output.recovery.removed_at[0].nonzero().squeeze(1)
    assert len(gone) == 11
    output.grids[0][0, gone[:1]].square().sum().backward()
    assert encoder.reducer.controller.recovery.bias.grad.abs() > 0
    patch_gradients = images.grad.unfold(2, 2, 2).unfold(3, 2, 2).abs().sum(dim=(0, 1, 4, 5)).flatten()
    assert patch_gradients[gone[0]] > 0
