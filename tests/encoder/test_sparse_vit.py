"""The encoder around any reducer: timm's options, input sizes, pooling, and what it refuses."""

from __future__ import annotations

import pytest
import timm
import torch
from tiny_models import PATCH, randomise, tiny_encoder, tiny_images, tiny_vit

from tap.encoder.sparse_vit import SparseEncoder
from tap.errors import UserError
from tap.reducers.base import ReducerSettings
from tap.reducers.dense import Dense

OPTIONS = {
    "plain": {},
    "registers": {"reg_tokens": 2},
    "no_embed_class": {"no_embed_class": True},
    "pre_norm": {"pre_norm": True},
    "layer_scale": {"init_values": 0.2},
    "qk_norm": {"qk_norm": True},
    "no_class_token": {"class_token": False},
    "average_pool": {"class_token": True, "global_pool": "avg"},
    "average_pool, norm before": {"class_token": True, "global_pool": "avg", "fc_norm": False},
    "no bias": {"qkv_bias": False},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_without_pruning_it_is_timm_s_model(name):
    encoder = tiny_encoder("tap", 1.0, grid=(3, 5), **OPTIONS[name])
    images = tiny_images(encoder)
    with torch.no_grad():
        states = encoder.vit.forward_features(images)
        expected = encoder.vit.forward_head(states, pre_logits=True)
        output = encoder(images)
        pooled = encoder.pool(output)
        assert torch.equal(encoder.vit.norm(output.tokens.rectangle), states)
    torch.testing.assert_close(pooled, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", OPTIONS)
def test_with_pruning_every_option_runs(name):
    encoder = tiny_encoder("tap", 0.4, grid=(3, 5), **OPTIONS[name])
    with torch.no_grad():
        output = encoder(tiny_images(encoder), return_trace=True)
        assert encoder.pool(output).isfinite().all()
    assert output.trace.final_counts.tolist() == [6] * 3
    own = encoder.vit.num_prefix_tokens
    assert output.tokens.layout.prefix == own + 1, "the register joins behind the model's own tokens"


def ragged_encoder(**vit):
    """Counts differ after the second of three pruning blocks, and the last one is beyond what runs."""
    encoder = tiny_encoder("tap", 0.4, (1, 2, 4), grid=(4, 5), **vit)
    encoder.vit.blocks = encoder.vit.blocks[:3]
    return encoder


def test_average_pooling_leaves_prefix_and_padding_out():
    """Pooled by hand."""
    encoder = ragged_encoder(class_token=False)
    with torch.no_grad():
        output = encoder(tiny_images(encoder, 4))
        pooled = encoder.pool(output)
        counts = output.tokens.layout.counts
        assert len(set(counts)) > 1
        for image, count in enumerate(counts):
            start = int(output.tokens.layout.starts[image]) + 1
            rows = encoder.vit.norm(output.tokens.x[start : start + count])
            torch.testing.assert_close(pooled[image], encoder.vit.fc_norm(rows.mean(dim=0)))


@pytest.mark.parametrize("pooling", ["avgmax", "max", "", "map", "prr"])
def test_other_pooling_is_timm_s(pooling):
    """On equally many patches; without removals it is the dense model."""
    encoder = tiny_encoder("dense", global_pool=pooling)
    images = tiny_images(encoder, 3)
    with torch.no_grad():
        vit = encoder.vit
        torch.testing.assert_close(encoder.pool(encoder(images)), vit.forward_head(vit.forward_features(images), True))
        pruned = tiny_encoder("tap", 0.5, global_pool=pooling)
        output = pruned(images)
        states = pruned.features(output)
        assert states.shape == (3, 1 + 8, 16)  # the register is left out
        rows = output.tokens.rectangle
        torch.testing.assert_close(states, pruned.vit.norm(torch.cat([rows[:, :1], rows[:, 2:]], dim=1)))
        assert torch.equal(pruned.pool(output), pruned.vit.forward_head(states, True))


@pytest.mark.parametrize("pooling", ["avg", "max", "avgmax"])
def test_pooling_does_not_see_what_fills_up_a_batch(pooling):
    encoder = ragged_encoder(global_pool=pooling)
    images = tiny_images(encoder, 6)
    with torch.no_grad():
        output = encoder(images)
        assert not output.tokens.layout.uniform
        together = encoder.vit.forward_head(encoder.features(output), True)
        torch.testing.assert_close(together, encoder.pool(output), rtol=1e-5, atol=1e-6)
        alone = torch.cat([encoder.pool(encoder(image[None])) for image in images])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_pooling_by_attention_needs_equal_counts():
    encoder = ragged_encoder(global_pool="map")
    with torch.no_grad(), pytest.raises(UserError, match="pooling by attention needs equally many"):
        encoder.pool(encoder(tiny_images(encoder, 6)))


def test_any_size_with_a_dynamic_position_embedding():
    encoder = tiny_encoder("tap", 0.4, (1, 3), (4,), dynamic_img_size=True, grid=(4, 4))
    dense = tiny_encoder("dense", dynamic_img_size=True, grid=(4, 4))
    for grid in ((4, 4), (2, 7), (1, 1), (5, 3)):
        images = tiny_images(encoder, 2, grid=grid)
        with torch.no_grad():
            output = encoder(images, return_trace=True)
            assert torch.equal(dense.vit.norm(dense(images).tokens.rectangle), dense.vit.forward_features(images))
        patches = grid[0] * grid[1]
        assert output.size == grid
        assert output.grids[0].shape == (2, patches, 16)
        assert output.trace.final_counts.tolist() == [max(1, int(0.4 * patches + 0.5))] * 2


def test_the_register_has_no_position():
    """It enters behind the class token as it is learned, whatever the position embedding."""
    encoder = tiny_encoder("tap", 0.5, (4,))
    entering = []
    encoder.vit.blocks[0].register_forward_pre_hook(lambda _module, inputs: entering.append(inputs[0]))
    with torch.no_grad():
        encoder(tiny_images(encoder, 2))
    assert torch.equal(entering[0][:, 1], encoder.reducer.controller.registers["cls"].expand(2, -1))


def test_wrong_sizes_are_refused():
    encoder = tiny_encoder(grid=(4, 4))
    for sides, message in (((9, 8), r"9x8 pixels .* multiples of the patch 2x2"), ((8, 10), r"fixed to 8x8")):
        with pytest.raises(UserError, match=message):
            encoder(torch.randn(1, 3, *sides))
    dynamic = tiny_encoder(grid=(4, 4), dynamic_img_size=True)
    with pytest.raises(UserError, match="multiples of the patch"):
        dynamic(torch.randn(1, 3, 8, 7))


def test_unsupported_models_are_refused():
    settings = ReducerSettings(16, 4, layers=(4,))
    with pytest.raises(UserError, match="ResNet is not a timm VisionTransformer"):
        SparseEncoder(timm.create_model("resnet10t"), Dense(settings))
    with pytest.raises(UserError, match=r"read_blocks: \[0, 5\] .* 4 blocks"):
        SparseEncoder(tiny_vit(), Dense(settings), read_blocks=(0, 2, 5))
    with pytest.raises(UserError, match="patch_drop"):
        SparseEncoder(tiny_vit(patch_drop_rate=0.5), Dense(settings))


@pytest.mark.parametrize("precision", ["bfloat16", "autocast"])
def test_sixteen_bits_stay_close_to_float32(precision):
    """The same patches are kept where the scores are far apart, and the features agree to 16-bit accuracy."""
    encoder = tiny_encoder("tap", 0.5, (2,), (4,), grid=(3, 3))
    images = tiny_images(encoder, 2)
    with torch.no_grad():
        exact = encoder(images, return_trace=True)
        if precision == "bfloat16":
            encoder, images = encoder.bfloat16(), images.bfloat16()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
            rough = encoder(images, return_trace=True)
    assert torch.equal(rough.trace.kept[2], exact.trace.kept[2])
    scale = exact.grids[0].abs().max()
    assert (rough.grids[0].float() - exact.grids[0]).abs().max() < 0.1 * scale
    assert rough.tokens.x.dtype == (torch.bfloat16 if precision == "bfloat16" else torch.float32)


def test_state_dict_round_trip():
    one, other = tiny_encoder("tap", seed=0), tiny_encoder("tap", seed=7)
    images = tiny_images(one)
    with torch.no_grad():
        before = one(images).tokens.x
        assert not torch.equal(other(images).tokens.x, before)
        missing = other.load_state_dict(one.state_dict())
        assert not missing.missing_keys
        assert not missing.unexpected_keys
        assert torch.equal(other(images).tokens.x, before)
    randomise(one, 3)  # the copies are not shared
    with torch.no_grad():
        assert torch.equal(other(images).tokens.x, before)


def test_patch_size_is_the_fixture_s():
    assert tiny_vit().patch_embed.patch_size == (PATCH, PATCH)
