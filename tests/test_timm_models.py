"""timm's whole model interface, on models that timm's factory makes."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import timm
import torch
from timm.data import resolve_data_config
from timm.models import group_parameters
from timm.optim import create_optimizer_v2
from torch import Tensor, nn

import tap
from tap.config.register import ControllerConfig
from tap.errors import UserError
from tap.factory import default_layers
from tap.timm_models import BASES

SMALL: dict[str, Any] = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "num_heads": 2, "depth": 4}
LAYERS = ControllerConfig(layers=(2, 3))
SCHEDULE = ControllerConfig(layers=(2, 3), schedule=(1, 2))


def small(name: str = "tap_vit_tiny_patch16_224", **options: Any) -> Any:
    torch.manual_seed(0)
    return timm.create_model(name, **SMALL | {"controller": LAYERS, "num_classes": 5} | options).eval()


@pytest.fixture(scope="module")
def images() -> Tensor:
    return torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def test_every_name_is_listed():
    assert set(timm.list_models("tap_*")) == set(BASES)
    assert all(name.removeprefix("tap_") == base.split(".")[0] for name, base in BASES.items())
    configs = {name: timm.get_pretrained_cfg(name) for name in BASES}
    assert {config.classifier for config in configs.values()} == {"head"}
    assert configs["tap_vit_small_patch14_reg4_dinov2"].input_size == (3, 518, 518)


def test_deeper_models_are_pruned_at_quarters_of_their_depth():
    with pytest.warns(UserWarning, match="of 24 blocks is pruned at blocks 6, 12, 18, a quarter, half and three"):
        assert default_layers(24) == (6, 12, 18)
    assert default_layers(12) == (3, 6, 9)
    with pytest.warns(UserWarning, match="2 blocks is pruned at blocks 1,"):
        assert default_layers(2) == (1,)
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("error")
        model = timm.create_model("tap_vit_large_patch16_224", depth=13, controller=ControllerConfig(layers=(4,)))
    assert model.encoder.reducer.settings.layers == (4,)


@pytest.mark.parametrize(
    "name", ["tap_vit_base_patch16_224", "tap_deit3_small_patch16_224", "tap_vit_small_patch14_reg4_dinov2"]
)
def test_a_name_is_its_base_under_a_register(name):
    with torch.device("meta"):
        model = timm.create_model(name)
        base = timm.create_model(BASES[name])
    vit = model.encoder.vit
    assert (vit.embed_dim, len(vit.blocks), vit.num_prefix_tokens) == (
        base.embed_dim,
        len(base.blocks),
        base.num_prefix_tokens,
    )
    assert vit.global_pool == base.global_pool
    assert vit.blocks[0].norm1.eps == base.blocks[0].norm1.eps
    assert model.encoder.reducer.settings.layers == tuple(len(vit.blocks) * quarter // 4 for quarter in (1, 2, 3))
    assert model.num_classes == 1000
    config, own = resolve_data_config({}, model=model), resolve_data_config({}, model=base)
    assert config == own


def test_features_and_head(images):
    model = small(keep_rate=0.5)
    with torch.no_grad():
        features = model.forward_features(images)
        assert features.shape == (3, 1 + 8, 24)
        assert torch.equal(model.forward_head(features), model(images))
        pooled = model.forward_head(features, pre_logits=True)
        assert torch.equal(model.get_classifier()(pooled), model(images))
        bare = small(num_classes=0)
        assert bare(images).shape == (3, bare.num_features)
    assert (model.num_features, model.head_hidden_size, model.embed_dim) == (24, 24, 24)


@pytest.mark.parametrize("pooling", ["avg", "max", "avgmax", "map"])
def test_pooling(images, pooling):
    model, base = small(global_pool=pooling, keep_rate=1.0), None
    torch.manual_seed(0)
    base = timm.create_model("vit_tiny_patch16_224", **SMALL, num_classes=5, global_pool=pooling).eval()
    trunk = {name: value for name, value in base.state_dict().items() if not name.startswith("head.")}
    assert not model.encoder.vit.load_state_dict(trunk).missing_keys
    model.head.load_state_dict(base.head.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(model(images), base(images))
        pruned = small(global_pool=pooling)
        torch.testing.assert_close(pruned(images), pruned.forward_head(pruned.forward_features(images)))


def test_the_classifier_is_reset(images):
    model = small(global_pool="token")
    model.reset_classifier(7)
    assert model(images).shape == (3, 7)
    assert model.num_classes == 7
    model.reset_classifier(0, "avg")
    with torch.no_grad():
        features = model.forward_features(images)
        torch.testing.assert_close(model(images), features[:, 1:].mean(dim=1))
    model.train().reset_classifier(2)
    assert model.head.training


def test_intermediates_are_complete_grids(images):
    model = small("tap_vit_small_patch14_reg4_dinov2", patch_size=8, task="seg", keep_rate=0.5)
    with torch.no_grad():
        final, grids = model.forward_intermediates(images, (0, 3))
        assert final.shape == (3, 5 + 8, 24)
        assert torch.equal(final, model.forward_features(images))
        assert [grid.shape for grid in grids] == [(3, 24, 4, 4)] * 2
        assert all(torch.equal(a, b) for a, b in zip(model.forward_intermediates(images)[1][::3], grids, strict=True))
        rows = model.forward_intermediates(images, 1, output_fmt="NLC", intermediates_only=True, norm=True)[0]
        torch.testing.assert_close(rows.transpose(1, 2).unflatten(2, (4, 4)), norm_of(model, grids[1]))
        paired = model.forward_intermediates(images, [1], True, stop_early=True, intermediates_only=True)[0]
        assert paired[1].shape == (3, 5, 24)
        model.encoder.read_blocks = (1, 4)
        assert all(torch.equal(a.flatten(2).mT, b) for a, b in zip(grids, model.encoder(images).grids, strict=True))


def norm_of(model: Any, grid: Tensor) -> Tensor:
    return model.encoder.vit.norm(grid.movedim(1, -1)).movedim(-1, 1)


def test_intermediates_without_removals_are_timm_s(images):
    model = small(keep_rate=1.0)
    with torch.no_grad():
        final, grids = model.forward_intermediates(images, 2)
        expected, maps = model.encoder.vit.forward_intermediates(images, 2)
    torch.testing.assert_close(final, expected)
    torch.testing.assert_close(grids, maps)


def test_a_method_without_grids_is_refused(images):
    with pytest.raises(UserError, match="'evit' gives removed patches no place on a grid"):
        small(method="evit").forward_intermediates(images)
    with pytest.raises(UserError, match="output_fmt: 'NHWC' is not known"):
        small().forward_intermediates(images, output_fmt="NHWC")


def test_features_only_feeds_any_neck(images):
    model = small(features_only=True, out_indices=(0, 2), num_classes=None)
    assert model.feature_info.channels() == [24, 24]
    assert model.feature_info.reduction() == [8, 8]
    maps = model(images)
    assert [grid.shape for grid in maps] == [(3, 24, 4, 4)] * 2
    sum(grid.square().mean() for grid in maps).backward()
    recovery = model.model.encoder.reducer.controller.recovery
    assert recovery.bias.grad.abs() > 0
    last = small(features_only=True, out_indices=(-1,), num_classes=None, keep_rate=0.25)
    assert last(images)[0].shape == (3, 24, 4, 4)


def test_layer_decay_and_weight_decay():
    model = small("tap_vit_small_patch14_reg4_dinov2", patch_size=8)
    layers = group_parameters(model, model.group_matcher(), reverse=True)
    own = group_parameters(model.encoder.vit, model.encoder.vit.group_matcher(), reverse=True)
    assert {name: layers[f"encoder.vit.{name}"] for name in own} == own
    top = max(layers.values())
    assert {layers[name] for name in layers if not name.startswith("encoder.vit.")} == {top}
    assert (layers["encoder.vit.cls_token"], layers["encoder.vit.reg_token"], top) == (0, 0, 5)
    optimizer = create_optimizer_v2(model, "adamw", lr=1e-3, weight_decay=0.05, layer_decay=0.5)
    rates = {id(p): (g["lr_scale"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    named = {name: rates[id(p)] for name, p in model.named_parameters() if p.requires_grad}
    assert named["encoder.vit.pos_embed"] == (0.5**5, 0.0)
    assert named["encoder.vit.cls_token"] == named["encoder.vit.reg_token"] == (0.5**5, 0.0)
    assert named["encoder.vit.blocks.3.mlp.fc1.weight"] == (0.5, 0.05)
    assert named["encoder.vit.blocks.3.mlp.fc1.bias"] == (0.5, 0.0)
    assert named["head.weight"] == (1.0, 0.05)
    assert named["encoder.reducer.controller.registers.cls"] == (1.0, 0.0)


def test_rates_of_dropout_and_depth():
    model = small(drop_rate=0.3, drop_path_rate=0.2, pos_drop_rate=0.1, proj_drop_rate=0.1, attn_drop_rate=0.1)
    vit = model.encoder.vit
    assert (vit.head_drop.p, vit.pos_drop.p, vit.blocks[0].attn.attn_drop.p) == (0.3, 0.1, 0.1)
    assert vit.blocks[-1].drop_path1.drop_prob == pytest.approx(0.2)
    model.train()
    with torch.no_grad():
        pooled = torch.ones(4, 24)
        assert (model.encoder.vit.head_drop(pooled) == 0).any()
        vit.head_drop.p = 1.0
        assert torch.equal(model(torch.randn(2, 3, 32, 32)), model.head.bias.expand(2, -1))


def test_sizes_and_channels():
    model = small(img_size=(32, 48), in_chans=1)
    assert model(torch.randn(2, 1, 32, 48)).shape == (2, 5)
    assert (model.in_chans, model.patch_embed.grid_size) == (1, (4, 6))
    model.set_input_size((16, 32))
    assert model(torch.randn(2, 1, 16, 32)).shape == (2, 5)
    dynamic = small(dynamic_img_size=True)
    assert dynamic(torch.randn(2, 3, 24, 40)).shape == (2, 5)
    assert resolve_data_config({}, model=dynamic)["input_size"] == (3, 224, 224)


def test_stored_elsewhere_and_in_another_type():
    model = small(device="meta", dtype=torch.bfloat16)
    assert all(p.is_meta and p.dtype == torch.bfloat16 for p in model.parameters())


@pytest.mark.parametrize("method", ["static", "tap", "dense"])
def test_an_empty_batch(method, images):
    model = small(method=method, task="seg", controller=SCHEDULE if method == "static" else LAYERS)
    empty = images[:0]
    count = model.forward_features(images).shape[1]
    assert model(empty).shape == (0, 5)
    assert model(empty, return_trace=True)[1].final_counts.shape == (0,)
    assert model.forward_features(empty).shape == (0, count, 24)
    _, grids = model.forward_intermediates(empty, 2)
    assert [grid.shape for grid in grids] == [(0, 24, 4, 4)] * 2
    assert model.train()(empty).sum().backward() is None


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(3, 32, 32), r"images: 3 dimensions \(3, 32, 32\); give a batch"),
        (torch.zeros(1, 3, 32, 32, dtype=torch.uint8), "images: torch.uint8 holds no normalised pixels"),
        (torch.zeros(1, 4, 32, 32), "images: 4 channels, but the model takes 3"),
        (torch.zeros(1, 3, 32, 32, device="meta"), "meta device there are no values that 'tap' could rank"),
    ],
)
def test_input_without_a_right_result_is_refused(images, message):
    model = small()
    for call in (model, model.forward_features, model.forward_intermediates):
        with pytest.raises(UserError, match=message):
            call(images)


def test_without_removals_the_meta_device_will_do():
    with torch.device("meta"):
        model = tap.create_model("vit_tiny_patch16_224", num_classes=5, image_size=32, keep_rate=1.0)
        assert isinstance(model.head, nn.Linear)
        assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 5)
