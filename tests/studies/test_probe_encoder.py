"""The probing encoder against a slow model of one image at a time, and what it shares between probes."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny_encoder, tiny_images
from torch import Tensor

from tap.core.budget import keep_count
from tap.criteria.base import ProbeInputs
from tap.criteria.registry import CRITERIA, get
from tap.encoder.vitdet import place_on_grid
from tap.errors import UserError
from tap.studies.probe_encoder import Probe, ProbeEncoder

GRID, DEPTH = (4, 5), 3


def probing(encoder, rate=0.5, criteria=tuple(CRITERIA), seed=3):
    return ProbeEncoder(encoder, rate, [get(name) for name in criteria], seed)


def dense(reads=(), **options):
    return tiny_encoder("dense", 1.0, reads=reads, grid=GRID, depth=DEPTH, **options).double()


def slow_probe(encoder, image: Tensor, number: int, probe: Probe, count: int, seed: int):
    """Rows after the last block and grids `(N, d)` of one image, block by block and patch by patch."""
    vit, patches = encoder.vit, GRID[0] * GRID[1]
    x = vit.norm_pre(vit._pos_embed(vit.patch_embed(image[None])))[0]
    prefix = len(x) - patches
    kept, removed, stand_in, offset = list(range(patches)), [], {}, {}
    grids = []
    for layer, block in enumerate(vit.blocks, start=1):
        if layer == probe.layer:
            hidden = block.norm1(x)
            heads = block.attn.num_heads
            query, key, _ = block.attn.qkv(hidden).view(len(x), 3, heads, -1).unbind(1)
            attention = (torch.einsum("qhd,khd->hqk", query, key) * query.shape[-1] ** -0.5).softmax(dim=-1)
            keys = key.flatten(1)[prefix:]
            inputs = ProbeInputs(
                x[None, prefix:],
                keys[None],
                attention.mean(dim=(0, 1))[None, prefix:].float(),
                attention.amax(dim=(0, 1))[None, prefix:].float(),
                GRID,
                torch.tensor([number]),
                layer,
                seed,
            )
            kept = probe.criterion.keep(inputs, count)[0].tolist()
            removed = [patch for patch in range(patches) if patch not in kept]
            for patch in removed:
                cosines = [torch.cosine_similarity(keys[patch], keys[other], dim=0).item() for other in kept]
                stand_in[patch] = kept[cosines.index(max(cosines))]
                offset[patch] = x[prefix + patch] - x[prefix + stand_in[patch]]
            x = x[[*range(prefix), *(prefix + patch for patch in kept)]]
        x = block(x[None])[0]
        if layer in encoder.read_blocks:
            grid = torch.empty(patches, x.shape[1], dtype=x.dtype)
            for row, patch in enumerate(kept if layer >= probe.layer else range(patches)):
                grid[patch] = x[prefix + row]
            for patch in removed:
                grid[patch] = grid[stand_in[patch]] + probe.alpha * offset[patch]
            grids.append(grid)
    return x, grids


@pytest.mark.parametrize("class_token", [True, False])
def test_every_probe_is_that_of_a_slow_model(class_token):
    encoder = dense((1, 3), class_token=class_token)
    images, ids = tiny_images(encoder, 2), torch.tensor([7, 4])
    probed, count = probing(encoder), keep_count(20, 0.5)
    with torch.inference_mode():
        for layer in range(1, DEPTH + 1):
            for criterion in CRITERIA.values():
                for alpha in (1.0, 0.0, 0.25):
                    probe = Probe(layer, criterion, alpha)
                    probed.rewind(probe)
                    output = probed(images, ids, return_trace=True)
                    assert output.trace.final_counts.tolist() == [count, count]
                    assert output.trace.kept[layer].sum(dim=1).tolist() == [count, count]
                    for number in range(2):
                        rows, grids = slow_probe(encoder, images[number], int(ids[number]), probe, count, seed=3)
                        torch.testing.assert_close(output.tokens.rectangle[number], rows)
                        for ours, theirs in zip(output.grids, grids, strict=True):
                            torch.testing.assert_close(ours[number], theirs)


def trunk():
    """A ViTDet trunk: windows at blocks 1 and 3, global attention with relative position at 2 and 4."""
    encoder = tiny_encoder("dense", 1.0, reads=(4,), grid=(5, 5), depth=4, class_token=False, dynamic_img_size=True)
    place_on_grid(encoder.vit, 2, (2, 4), (5, 5), relative=True)
    with torch.no_grad():
        for number, block in enumerate(encoder.vit.blocks):
            for table in block.attn.tables:
                table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(number)))
    return encoder


@pytest.mark.parametrize(("build", "layers"), [(lambda: dense((1, 3)), (1, 2, 3)), (trunk, (2, 4))], ids=["vit", "det"])
def test_what_probes_share_changes_nothing(build, layers):
    encoder = build()
    images, ids = tiny_images(encoder, 2), torch.arange(2)
    names = ("coverage", "attention_max", "key_redundancy")
    probes = [Probe(layer, get(name), alpha) for layer in layers for name in names for alpha in (1.0, 0.0)]
    together = probing(encoder, 0.4, names)
    with torch.inference_mode():
        for probe in [*probes, None]:
            together.rewind(probe)
            alone = probing(encoder, 0.4, names)
            alone.rewind(probe)
            ours, theirs = together(images, ids), alone(images, ids) if probe else encoder(images, ids)
            assert torch.equal(ours.tokens.x, theirs.tokens.x)
            assert ours.final_counts == theirs.final_counts
            for one, other in zip(ours.grids, theirs.grids, strict=True):
                assert torch.equal(one, other)


def test_each_dense_block_runs_once_and_endpoints_share_what_is_pruned(monkeypatch):
    encoder, ran = dense((3,)), []
    original = encoder.reducer.run_block

    def counted(layer, block, tokens, state):
        ran.append((layer, tokens.layout.width))
        return original(layer, block, tokens, state)

    monkeypatch.setattr(encoder.reducer, "run_block", counted)
    images, probed = tiny_images(encoder, 2), probing(encoder)
    with torch.inference_mode():
        for layer in range(1, DEPTH + 1):
            for name in CRITERIA:
                for alpha in (1.0, 0.0):
                    probed.rewind(Probe(layer, get(name), alpha))
                    probed(images)
        probed.rewind(None)
        probed(images)
    assert [run for run in ran if run[1] == 20] == [(1, 20), (2, 20), (3, 20)]
    behind = [run for run in ran if run[1] == 10]
    assert len(behind) == len(CRITERIA) * (2 + 1 + 0), "blocks behind the pruned one, once for both endpoints"


def test_with_keep_rate_1_every_probe_is_no_pruning():
    encoder = dense((1, 3))
    images, probed = tiny_images(encoder, 2), probing(encoder, 1.0)
    with torch.inference_mode():
        expected = encoder(images)
        for layer in range(1, DEPTH + 1):
            for name in CRITERIA:
                probed.rewind(Probe(layer, get(name), 0.0))
                output = probed(images)
                assert torch.equal(output.tokens.x, expected.tokens.x)
                assert all(torch.equal(ours, theirs) for ours, theirs in zip(output.grids, expected.grids, strict=True))


def test_several_calls_of_one_prediction_are_told_apart_and_a_new_batch_forgets_them():
    encoder = dense()
    windows = [tiny_images(encoder, 1, seed=seed) for seed in range(3)]
    probed = probing(encoder)
    for images in (windows[:2], windows[1:]):
        probed.new_batch()
        for probe in (Probe(1, get("token_l1")), Probe(3, get("token_l2")), None):
            probed.rewind(probe)
            for window in images:
                alone = probing(encoder)
                alone.rewind(probe)
                assert torch.equal(probed(window).tokens.x, alone(window).tokens.x)


def test_what_cannot_be_probed_is_refused():
    with pytest.raises(UserError, match="prunes by itself"):
        probing(tiny_encoder("random", 0.5))
    with pytest.raises(UserError, match="keep rate: 0"):
        probing(dense(), 0.0)
    with pytest.raises(UserError, match="block 4 is not one of the model's 3"):
        probing(dense()).rewind(Probe(4, get("random")))
    with pytest.raises(UserError, match="criterion: 'best' is not known"):
        get("best")
    probed, images = probing(dense()), tiny_images(dense(), 1)
    probed.rewind(Probe(3, get("random")))
    probed(images)
    probed.rewind(Probe(2, get("random")))
    with pytest.raises(ValueError, match="ascending"):
        probed(images)
