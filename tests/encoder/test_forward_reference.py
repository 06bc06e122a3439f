"""The packed forward pass of TAP against plain loops in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from reference import Expected, Rules, forward
from tiny_models import tiny_encoder, tiny_images
from torch import Tensor

from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.encoder.trace import Trace

SURE = 3e-6
"""Decisions closer than this may fall differently in float32, in which the encoder ranks and matches."""
QUICK = settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.filter_too_much])

rates = st.integers(1, 100).map(lambda percent: percent / 100)
grids = st.tuples(st.integers(1, 5), st.integers(1, 5)).filter(lambda grid: grid != (1, 1))
blocks = st.sets(st.integers(1, 4), min_size=1).map(lambda chosen: tuple(sorted(chosen)))
backbones = st.fixed_dictionaries(
    {
        "class_token": st.booleans(),
        "qk_norm": st.booleans(),
        "init_values": st.sampled_from([None, 0.1]),
        "reg_tokens": st.sampled_from([0, 2]),
        "seed": st.integers(0, 10_000),
    }
)


def references(encoder: SparseEncoder, images: Tensor, rules: Rules) -> list[Expected]:
    return [forward(encoder.vit, encoder.reducer.controller, "cls", image, rules) for image in images]


def sure(expected: list[Expected]) -> bool:
    return min(image.margin for image in expected) > SURE


def rules_of(encoder: SparseEncoder, **changes) -> Rules:
    reducer = encoder.reducer
    return Rules(reducer.keep_rate, reducer.settings.layers, encoder.read_blocks, **changes)


def check_states(encoder: SparseEncoder, output: EncoderOutput, expected: list[Expected], tolerance: float) -> None:
    """Pooled features, every surviving state, and every grid."""
    torch.testing.assert_close(
        encoder.pool(output), torch.stack([e.pooled for e in expected]), rtol=tolerance, atol=tolerance
    )
    layout, x = output.tokens.layout, output.tokens.x
    for image, reference in enumerate(expected):
        prefix = [*reference.prefix, *([] if reference.register is None else [reference.register])]
        rows = torch.stack([*prefix, *reference.patches.values()])
        start = int(layout.starts[image])
        torch.testing.assert_close(x[start : start + len(rows)], rows, rtol=tolerance, atol=tolerance)
        assert output.tokens.index[image, : len(reference.patches)].tolist() == list(reference.patches)
    assert layout.rows == sum(len(e.patches) for e in expected) + layout.batch * layout.prefix
    for read, grid in enumerate(output.grids):
        wanted = torch.stack([e.grids[read] for e in expected])
        torch.testing.assert_close(grid, wanted, rtol=tolerance, atol=tolerance)


def check_decisions(trace: Trace, expected: list[Expected], patches: int) -> None:
    assert trace.final_counts.tolist() == [len(e.patches) for e in expected]
    for image, reference in enumerate(expected):
        left = list(range(patches))
        for layer in sorted(trace.kept):
            left = reference.kept.get(layer, left)  # an image whose budget is spent keeps what it has
            assert trace.kept_indices(layer)[image].tolist() == left
            assert trace.removed[layer][image] == reference.removals.get(layer, 0)
        assert set(reference.kept) <= set(trace.kept)


@QUICK
@given(grid=grids, rate=rates, layers=blocks, reads=blocks, batch=st.integers(1, 3), backbone=backbones)
def test_dense_pass(grid, rate, layers, reads, batch, backbone):
    encoder = tiny_encoder("tap", rate, layers, reads, grid=grid, **backbone).double()
    images = tiny_images(encoder, batch, seed=backbone["seed"])
    with torch.no_grad():
        expected = references(encoder, images, rules_of(encoder))
        assume(sure(expected))
        output = encoder(images, return_trace=True)
    check_decisions(output.trace, expected, grid[0] * grid[1])
    check_states(encoder, output, expected, 1e-5)  # scores and scales are float32 by design
    for layer, scales in output.trace.scales.items():
        for image, reference in enumerate(expected):
            if layer in reference.scales:
                torch.testing.assert_close(scales[image].double(), reference.scales[layer], rtol=1e-6, atol=1e-6)


@QUICK
@given(grid=grids, rate=rates, layers=blocks, batch=st.integers(1, 4), backbone=backbones)
def test_classification_pass(grid, rate, layers, batch, backbone):
    encoder = tiny_encoder("tap", rate, layers, grid=grid, **backbone).double()
    images = tiny_images(encoder, batch, seed=backbone["seed"])
    with torch.no_grad():
        expected = references(encoder, images, rules_of(encoder))
        assume(sure(expected))
        output = encoder(images, return_trace=True)
    check_decisions(output.trace, expected, grid[0] * grid[1])
    check_states(encoder, output, expected, 1e-10)
    assert output.recovery is None
    assert not output.trace.scales


def test_the_paper_s_depths():
    """Twelve blocks, pruned before 3, 6 and 9, read after 3, 6, 9 and 12; counts differ between the images."""
    encoder = tiny_encoder("tap", 0.4, (3, 6, 9), (3, 6, 9, 12), depth=12, grid=(6, 6), seed=81).double()
    images = tiny_images(encoder, 3)
    with torch.no_grad():
        expected = references(encoder, images, rules_of(encoder))
        output = encoder(images, return_trace=True)
    assert sure(expected)
    assert len(set(output.trace.removed[3].tolist())) > 1
    assert len(set(output.trace.removed[6].tolist())) > 1
    chained = [e for e in expected if any(e.stand_ins.get(j) is not None for j in e.stand_ins.values())]
    assert chained, "no pointer chain of two links came up; choose another seed"
    check_decisions(output.trace, expected, 36)
    check_states(encoder, output, expected, 1e-5)


@pytest.mark.parametrize("matching", ["key", "token", "spatial", "score", "final"])
@pytest.mark.parametrize("scale", ["learned", 0.0, 0.37, 1.0])
def test_matching_rules_and_endpoints(matching, scale):
    settings_ = RecoverySettings(scale=scale, matching=matching)
    encoder = tiny_encoder("tap", 0.3, (1, 2, 3), (1, 2, 4), settings_, grid=(4, 5), seed=5).double()
    images = tiny_images(encoder, 3)
    fixed = None if scale == "learned" else scale
    with torch.no_grad():
        expected = references(encoder, images, rules_of(encoder, matching=matching, scale=fixed))
        output = encoder(images, return_trace=True)
    assert sure(expected)
    assert len(set(output.trace.removed[2].tolist())) > 1, "the counts should differ"
    check_states(encoder, output, expected, 1e-5)


def test_zero_fill():
    encoder = tiny_encoder("tap", 0.4, (2, 4), (2, 4), RecoverySettings(zero_fill=True), grid=(4, 5), seed=9).double()
    images = tiny_images(encoder, 2)
    with torch.no_grad():
        expected = references(encoder, images, rules_of(encoder, zero_fill=True))
        output = encoder(images)
    assert sure(expected)
    check_states(encoder, output, expected, 1e-10)
    assert output.recovery.bytes == 0


def test_given_schedule():
    """Shares 10, 60, 30 of 12 removals: 1, 7, 4 by largest remainder, whatever the register says."""
    encoder = tiny_encoder("tap", 0.4, (1, 2, 3), (2, 4), grid=(4, 5), settings={"schedule": (10, 60, 30)}).double()
    images = tiny_images(encoder, 3)
    with torch.no_grad():
        expected = references(encoder, images, rules_of(encoder, schedule=(1, 7, 4)))
        output = encoder(images, return_trace=True)
    assert sure(expected)
    assert output.trace.removals.tolist() == [[1, 7, 4]] * 3
    check_decisions(output.trace, expected, 20)
    check_states(encoder, output, expected, 1e-5)


def test_random_matching_takes_survivors_and_is_seeded():
    def run(seed: int, ids: Tensor) -> tuple[SparseEncoder, EncoderOutput]:
        recovery = RecoverySettings(matching="random", seed=seed)
        encoder = tiny_encoder("tap", 0.4, (2, 3, 4), (2, 3, 4), recovery, grid=(4, 5), seed=9).double()
        with torch.no_grad():
            return encoder, encoder(tiny_images(encoder, 2), ids, return_trace=True)

    ids = torch.tensor([7, 9])
    encoder, output = run(0, ids)
    stand_ins = {}
    for record in output.recovery.records:
        where = (output.recovery.removed_at == record.layer).nonzero().tolist()
        for (image, position), pointer in zip(where, record.pointer.tolist(), strict=True):
            stand_ins[image, record.layer, position] = pointer
    with torch.no_grad():
        for image, pixels in enumerate(tiny_images(encoder, 2)):

            def drawn(layer: int, i: int, kept: list[int], image: int = image) -> int:
                assert stand_ins[image, layer, i] in kept
                return stand_ins[image, layer, i]

            expected = forward(
                encoder.vit, encoder.reducer.controller, "cls", pixels, rules_of(encoder, matching=drawn)
            )
            assert expected.margin > SURE
            for read, grid in enumerate(output.grids):
                torch.testing.assert_close(grid[image], expected.grids[read], rtol=1e-5, atol=1e-5)
    assert all(map(torch.equal, run(0, ids)[1].grids, output.grids))
    assert not torch.equal(run(1, ids)[1].grids[1], output.grids[1])
    other = run(0, torch.tensor([7, 10]))[1].grids[1]
    assert torch.equal(other[0], output.grids[1][0])
    assert not torch.equal(other[1], output.grids[1][1])


def test_a_wrong_reference_would_be_noticed():
    """The comparison sees one changed weight of the controller."""
    encoder = tiny_encoder("tap", 0.5, (2, 3), (4,)).double()
    images = tiny_images(encoder, 2)
    with torch.no_grad():
        output = encoder(images)
        encoder.reducer.controller.recovery.bias += 0.01
        expected = [forward(encoder.vit, encoder.reducer.controller, "cls", x, rules_of(encoder)) for x in images]
    with pytest.raises(AssertionError):
        check_states(encoder, output, expected, 1e-5)
