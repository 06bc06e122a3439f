"""`tap.wrap`: a register on a model that is there already."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import timm
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn

import tap
from tap.config.register import ControllerConfig
from tap.errors import UserError

SMALL: dict[str, Any] = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "num_heads": 2, "depth": 4, "num_classes": 5}
LAYERS = ControllerConfig(layers=(2, 3))
KINDS = [
    ("vit_tiny_patch16_224", {}),
    ("vit_tiny_patch16_224", {"global_pool": "avg", "class_token": False}),
    ("vit_tiny_patch16_224", {"norm_layer": partial(nn.LayerNorm, eps=1e-3), "pre_norm": True}),
    ("vit_base_patch16_siglip_224", {}),
    ("vit_base_patch16_gap_224", {}),
    ("vit_base_patch16_clip_224", {}),
    ("deit3_small_patch16_224", {}),
    ("vit_small_patch14_reg4_dinov2", {}),
]


def timm_model(name: str = "vit_tiny_patch16_224", **options: Any) -> Any:
    torch.manual_seed(0)
    return timm.create_model(name, **SMALL | options).eval()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def assert_same(found: torch.Tensor, expected: torch.Tensor, source: Any) -> None:
    """The same bits; without prefix tokens and final norm timm's mean runs over another memory layout."""
    if source.num_prefix_tokens == 0 and isinstance(source.norm, nn.Identity):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    else:
        assert torch.equal(found, expected)


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_a_model_stays_what_it_is(name, options, images):
    """Bit-equal without removals; no class token is added, no pooling or norm is changed."""
    source = timm_model(name, **options)
    with torch.no_grad():
        expected = source(images)
        assert_same(tap.wrap(source, keep_rate=1.0, controller=LAYERS)(images), expected, source)
        wrapped = tap.wrap(source, keep_rate=0.5, controller=LAYERS)
        logits, trace = wrapped(images, return_trace=True)
        assert trace.final_counts.tolist() == [8] * 3
        torch.testing.assert_close(wrapped.forward_head(wrapped.forward_features(images)), logits)
        assert torch.equal(source(images), expected), "the source is left as it is"
    vit = wrapped.encoder.vit
    assert (vit.has_class_token, vit.global_pool) == (source.has_class_token, source.global_pool)
    assert vit.norm.__class__ is source.norm.__class__
    assert getattr(vit.norm, "eps", None) == getattr(source.norm, "eps", None)
    assert wrapped.num_classes == 5
    assert source.head is wrapped.head
    assert wrapped.pretrained_cfg["mean"] == source.pretrained_cfg["mean"]


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_a_named_model_stays_what_it_is(name, options, images):
    given = {key: value for key, value in (SMALL | options).items() if key != "img_size"}
    torch.manual_seed(0)
    model = tap.create_model(name, image_size=32, keep_rate=1.0, controller=LAYERS, **given).eval()
    source = timm_model(name, **options)
    trunk = {n: value for n, value in source.state_dict().items() if not n.startswith("head.")}
    model.encoder.vit.load_state_dict(trunk)
    model.head.load_state_dict(source.head.state_dict())
    with torch.no_grad():
        assert_same(model(images), source(images), source)


def test_weights_are_shared(images):
    source = timm_model()
    wrapped = tap.wrap(source, controller=LAYERS, anneal_steps=5).train()
    before = source.blocks[0].mlp.fc1.weight.detach().clone()
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=1.0)
    wrapped(images).square().sum().backward()
    optimizer.step()
    assert not torch.equal(source.blocks[0].mlp.fc1.weight, before)
    wrapped.reset_classifier(2)
    wrapped.set_input_size((64, 64))
    assert source.head.out_features == 5
    assert (source.num_classes, source.pos_embed.shape[1]) == (5, 17)


def test_type_and_device_are_the_model_s():
    wrapped = tap.wrap(timm_model().to(torch.bfloat16).train(), controller=LAYERS)
    assert {p.dtype for p in wrapped.parameters()} == {torch.bfloat16}
    assert wrapped.training


def test_a_dense_task(images):
    wrapped = tap.wrap(timm_model(num_classes=0), task="seg", keep_rate=0.25, controller=LAYERS)
    assert [g.shape for g in wrapped.forward_intermediates(images, 2, intermediates_only=True)] == [(3, 24, 4, 4)] * 2
    assert "seg" in wrapped.encoder.reducer.controller.registers
    merged = tap.wrap(timm_model(num_classes=0), task="seg", method="tome", controller=LAYERS)
    assert merged.forward_intermediates(images, 1, intermediates_only=True)[0].shape == (3, 24, 4, 4)


class Distilled(VisionTransformer):
    pass


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (partial(timm.create_model, "resnet10t"), {}, "ResNet cannot be wrapped; give a timm VisionTransformer"),
        (partial(nn.Linear, 1, 1), {}, "Linear cannot be wrapped"),
        (partial(Distilled, **SMALL), {}, "Distilled cannot be wrapped"),
        (timm_model, {"task": "det", "method": "algm"}, "'algm' does not have the task 'det', only seg"),
        (timm_model, {"method": "svit"}, "'svit' does not have the task 'cls', only det"),
        (timm_model, {"task": "seg", "method": "ats"}, "'ats' does not have the task 'seg'"),
        (timm_model, {"task": "seg", "method": "dtop"}, "run it by the workflow"),
        (timm_model, {"task": "depth"}, "task: 'depth' is not known; choose one of cls, seg, det"),
        (timm_model, {"method": "tapp"}, "'tapp' is not known"),
        (partial(timm_model, patch_drop_rate=0.5), {"controller": LAYERS}, "patch_drop_rate drops patches"),
    ],
)
def test_what_cannot_be_wrapped(model, options, message):
    with pytest.raises(UserError, match=message) as error:
        tap.wrap(model(), **options)
    assert "\n" not in str(error.value)


def test_a_wrapped_model_is_not_wrapped_again():
    wrapped = tap.wrap(timm_model(), controller=LAYERS)
    with pytest.raises(UserError, match="it has a method already"):
        tap.wrap(wrapped)


def test_methods_without_a_calibrated_threshold_say_what_they_keep(images):
    model = tap.wrap(timm_model(depth=12), method="ats")
    with pytest.warns(UserWarning, match="'ats' is not calibrated: it keeps .* of 16 patches"):
        model(images)
    mean = model.calibrate([images, torch.randn(13, 3, 32, 32)])
    assert mean == pytest.approx(8, abs=1.0)
    with torch.no_grad():
        assert model(images, return_trace=True)[1].final_counts.float().mean() == pytest.approx(8, abs=2.0)
    state = model.state_dict()
    again = tap.wrap(timm_model(depth=12), method="ats")
    again.load_state_dict(state)
    assert torch.equal(again(images), model(images))
    with pytest.raises(UserError, match="calibrate: there is no image"):
        again.calibrate([])
    with pytest.raises(UserError, match="calibrate: 'tap' has no threshold"):
        tap.wrap(timm_model(), controller=LAYERS).calibrate([images])
