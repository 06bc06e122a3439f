"""Stages of static shape are the plain encoder: same kept sets, same states and grids, one graph and one read each."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tiny_models import common_recovery, tiny_encoder, tiny_images

from tap.encoder import staged
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.staged import Shape, Stages, capacity, pack
from tap.encoder.staged_encoder import StagedEncoder
from tap.errors import UserError

SHAPES = {"cls": (), "seg": (1, 2, 3, 4), "det": (4,)}
TRUNKS = {
    "windows": {"window": 3, "global_blocks": (2, 4, 5)},  # cut the grid of 5 x 6 beyond its edge
    "windows without relative position": {"window": 3, "global_blocks": (2, 4, 5), "relative": False},
    "relative position alone": {"relative": True},
}


def both(task: str, rate: float = 0.4, layers=(2, 3, 4), recovery=None, **more) -> tuple[SparseEncoder, SparseEncoder]:
    trunk = {"window": 3, "global_blocks": layers} if task == "det" else {}
    plain = tiny_encoder("tap", rate, layers, SHAPES[task], recovery, **{"grid": (5, 6), "seed": 9, **trunk, **more})
    other = StagedEncoder(plain.vit, plain.reducer, plain.read_blocks, plain.recovery).eval()
    return plain, other


def same(plain: SparseEncoder, other: SparseEncoder, images: torch.Tensor) -> None:
    with torch.no_grad():
        expected, found = (encoder(images, return_trace=True) for encoder in (plain, other))
    assert set(found.trace.kept) == set(expected.trace.kept)
    for layer, kept in expected.trace.kept.items():
        assert torch.equal(found.trace.kept[layer], kept)
    assert torch.equal(found.trace.removals, expected.trace.removals)
    assert torch.equal(found.tokens.index, expected.tokens.index)
    assert found.final_counts == expected.final_counts
    torch.testing.assert_close(found.tokens.x, expected.tokens.x, rtol=1e-5, atol=1e-5)
    assert len(found.grids) == len(expected.grids)
    for mine, theirs in zip(found.grids, expected.grids, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("task", SHAPES)
@pytest.mark.parametrize("batch", [1, 2, 7])
@pytest.mark.parametrize("rate", [0.05, 0.4, 0.95, 1.0])
def test_the_same_as_the_plain_encoder(task, batch, rate):
    plain, other = both(task, rate)
    images = tiny_images(plain, batch)
    same(plain, other, images)


@pytest.mark.parametrize(("layers", "depth"), [((1,), 4), ((1, 2), 4), ((4,), 4), ((1, 3, 4, 6), 6)])
@pytest.mark.parametrize("task", SHAPES)
def test_any_pruning_blocks(layers, depth, task):
    plain, other = both(task, 0.3, layers, depth=depth)
    same(plain, other, tiny_images(plain, 4))


@pytest.mark.parametrize("trunk", TRUNKS)
@pytest.mark.parametrize("batch", [1, 3])
def test_trunks_with_places(trunk, batch):
    """Windows between and after the decisions, in complete, packed and rectangular stages."""
    plain, other = both("det", 0.4, (2, 4), depth=6, **TRUNKS[trunk])
    same(plain, other, tiny_images(plain, batch))


def test_an_image_of_another_size_than_the_stored_positions():
    plain, other = both("det", 0.4, (2, 4), depth=5)
    torch.manual_seed(0)
    images = torch.randn(3, 3, 14, 10)
    same(plain, other, images)


def test_counts_differ_between_images():
    plain, _ = both("seg")
    with torch.no_grad():
        removals = plain(tiny_images(plain, 7), return_trace=True).trace.removals
    assert len(set(removals[:, 0].tolist())) > 1


@pytest.mark.parametrize("settings", [{"schedule": (0.5, 0.3, 0.2)}, {"task": "seg"}])
def test_settings_of_the_method(settings):
    plain, other = both("seg", settings=settings)
    same(plain, other, tiny_images(plain, 3))


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0])
def test_a_fixed_recovery_scale(scale):
    plain, other = both("seg", recovery=RecoverySettings(scale=scale))
    same(plain, other, tiny_images(plain, 3))


def test_matching_some_rows_at_a_time(monkeypatch):
    plain, other = both("seg")
    monkeypatch.setattr(staged, "MATRIX_BYTES", 4 * 30 * 7)
    same(plain, other, tiny_images(plain, 3))


@pytest.mark.slow
@pytest.mark.parametrize("task", SHAPES)
def test_each_stage_is_one_graph(task):
    """fullgraph refuses any break; the eager backend runs the graph that was captured."""
    torch._dynamo.reset()
    plain, other = both(task)
    compiler = partial(torch.compile, fullgraph=True, backend="eager", dynamic=False)
    other.stages = Stages(plain.vit, plain.reducer, plain.read_blocks, None, compiler)
    same(plain, other, tiny_images(plain, 3))


def test_the_host_reads_twice(monkeypatch):
    plain, other = both("cls")
    images, reads = tiny_images(plain, 3), []
    for name in ("tolist", "item", "__bool__", "__int__"):
        real = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor, name, lambda tensor, real=real, name=name: (reads.append(name), real(tensor))[1]
        )
    with torch.no_grad():
        other(images)
    assert reads == ["tolist", "tolist"]


def test_a_packing_leads_there_and_back():
    alive = torch.tensor([[True, False, True, True], [False, False, True, False]])
    packing = pack(alive, 2, Shape(10, 6, False))
    assert packing.position.tolist() == [0, 1, 2, 4, 5, 6, 7, 10, 12, 12]
    assert packing.lengths.tolist() == [5, 3]
    there = torch.cat([alive.new_ones(2, 2), alive], dim=1)
    assert torch.equal(packing.position[packing.row[there]], torch.arange(12).view(2, 6)[there])


@pytest.mark.parametrize("lengths", [[7], [100, 120, 90], [197] * 128])
def test_a_capacity_holds_all_and_little_more(lengths):
    complete = 200 * len(lengths)
    shape = capacity(lengths, complete)
    assert sum(lengths) <= shape.capacity <= sum(lengths) + 0.02 * complete
    assert max(lengths) <= shape.longest <= max(lengths) + 4


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("random", {}, "for TAP with the evolving register"),
        ("tap", {"settings": {"selection": "initial"}}, "for TAP with the evolving register"),
        ("tap", {"window": 2, "global_blocks": (2, 3), "padded": True}, "masks places beyond the grid's edge"),
    ],
)
def test_what_has_no_stages_is_refused(method, options, message):
    plain = tiny_encoder(method, 0.4, (2, 3), (), common_recovery(method), **options)
    with pytest.raises(UserError, match=message):
        StagedEncoder(plain.vit, plain.reducer, (), plain.recovery)


def test_other_ways_of_recovery_are_refused():
    plain = tiny_encoder("tap", 0.4, (2, 3), (4,), RecoverySettings(matching="spatial"))
    with pytest.raises(UserError, match="matches by keys alone"):
        StagedEncoder(plain.vit, plain.reducer, (4,), plain.recovery)
