"""Hugging Face's ViT and DINOv2, random weights at toy sizes: converted, run, pruned, converted back."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tap
from tap.config.register import ControllerConfig
from tap.errors import UserError
from tap.huggingface import from_huggingface, to_huggingface

transformers = pytest.importorskip("transformers")
LAYERS = ControllerConfig(layers=(2, 3))
COMMON: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}
KINDS = {
    "ViTModel": ("ViTConfig", {"intermediate_size": 40}),
    "ViTForImageClassification": ("ViTConfig", {"intermediate_size": 40, "num_labels": 5, "qkv_bias": False}),
    "Dinov2Model": ("Dinov2Config", {"mlp_ratio": 2}),
    "Dinov2WithRegistersModel": ("Dinov2WithRegistersConfig", {"mlp_ratio": 2, "num_register_tokens": 3}),
}


def huggingface(kind: str, seed: int = 0, **options: Any) -> Any:
    name, own = KINDS.get(kind, ("Dinov2Config", {}))
    torch.manual_seed(seed)
    model = getattr(transformers, kind)(getattr(transformers, name)(**COMMON | own | options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)  # biases, norms and tokens start at 0 or 1
    return model.eval()


def answer(model: Any, images: torch.Tensor) -> torch.Tensor:
    found = model(images)
    return found.logits if hasattr(found, "logits") else found.last_hidden_state


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_answer_without_removals(kind, images):
    source = huggingface(kind)
    model = tap.wrap(source, keep_rate=1.0, controller=LAYERS)
    with torch.no_grad():
        expected = answer(source, images)
        found = model(images) if model.num_classes else model.forward_features(images)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        pruned = tap.wrap(source, keep_rate=0.5, controller=LAYERS)
        assert pruned(images, return_trace=True)[1].final_counts.tolist() == [8] * 3
    assert model.encoder.vit.norm.eps == source.config.layer_norm_eps


@pytest.mark.parametrize("kind", KINDS)
def test_weights_go_back(kind, images):
    source, target = huggingface(kind), huggingface(kind, seed=1)
    model = tap.wrap(source, controller=LAYERS, anneal_steps=3).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model.forward_features(images).square().mean().backward()
    optimizer.step()
    assert to_huggingface(model, target) is target
    with torch.no_grad():
        dense = tap.wrap(target, keep_rate=1.0, controller=LAYERS).eval()
        for name, value in dense.encoder.vit.state_dict().items():
            torch.testing.assert_close(value, model.encoder.vit.state_dict()[name], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(
            dense(images) if dense.num_classes else dense.forward_features(images),
            answer(target, images),
            rtol=1e-5,
            atol=1e-5,
        )
        assert (answer(target, images) - answer(source, images)).abs().max() > 1e-4


@pytest.mark.parametrize("kind", ["Dinov2Model", "Dinov2WithRegistersModel", "ViTModel"])
def test_another_image_size(kind):
    source = huggingface(kind)
    larger = torch.randn(2, 3, 48, 40)
    model = tap.wrap(from_huggingface(source, (48, 40)), keep_rate=1.0, controller=LAYERS)
    options = {"interpolate_pos_encoding": True} if kind == "ViTModel" else {}
    with torch.no_grad():
        expected = source(larger, **options).last_hidden_state
        torch.testing.assert_close(model.forward_features(larger), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match="fixed to 48x40"):
        model(torch.randn(1, 3, 32, 32))
    with pytest.raises(UserError, match="image_size: 50x40 pixels are not multiples of the patch 8x8"):
        from_huggingface(source, (50, 40))


def test_what_cannot_be_converted():
    with pytest.raises(UserError, match="Dinov2ForImageClassification cannot be wrapped; give one of ViTModel"):
        tap.wrap(huggingface("Dinov2ForImageClassification"))
    with pytest.raises(UserError, match="SwiGLU layers cannot be converted"):
        tap.wrap(huggingface("Dinov2Model", use_swiglu_ffn=True))
    with pytest.raises(UserError, match="hidden_act 'mish' is not known; known: gelu"):
        tap.wrap(huggingface("ViTModel", hidden_act="mish"))
    with pytest.raises(UserError, match="no counterpart in the model"):
        to_huggingface(tap.wrap(huggingface("ViTModel"), controller=LAYERS), huggingface("ViTModel", hidden_size=32))


def test_dropout_and_depth_are_the_configuration_s():
    source = huggingface("Dinov2Model", hidden_dropout_prob=0.1, drop_path_rate=0.2, attention_probs_dropout_prob=0.3)
    vit = from_huggingface(source.train())
    assert (vit.pos_drop.p, vit.blocks[0].attn.attn_drop.p, vit.blocks[0].mlp.drop2.p) == (0.1, 0.3, 0.1)
    assert {block.drop_path1.drop_prob for block in vit.blocks} == {0.2}
    assert vit.training
