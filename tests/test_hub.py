"""Folders in Hugging Face's format: what is written is read again, whatever the model was made from."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import timm
import torch
from torch import nn

import tap
from tap.config.register import ControllerConfig
from tap.errors import UserError

SMALL: dict[str, Any] = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "num_heads": 2, "depth": 4, "num_classes": 5}
LAYERS = ControllerConfig(layers=(2, 3), allocation_bias=0.3)
KINDS = [
    ("vit_tiny_patch16_224", {"norm_layer": partial(nn.LayerNorm, eps=1e-3), "qk_norm": True}),
    ("vit_base_patch16_siglip_224", {}),
    ("vit_base_patch16_clip_quickgelu_224", {}),
    ("vit_base_patch16_gap_224", {"act_layer": partial(nn.GELU, approximate="tanh")}),
    ("deit3_small_patch16_224", {"qkv_bias": False, "in_chans": 1}),
    ("vit_small_patch14_reg4_dinov2", {"img_size": (32, 48), "num_classes": 0}),
    ("vit_tiny_patch16_224", {"global_pool": "avg", "dynamic_img_size": True, "pos_embed": "none"}),
]


def made(name: str = "vit_tiny_patch16_224", method: str = "tap", options: Any = None, **wrapping: Any) -> Any:
    torch.manual_seed(0)
    source = timm.create_model(name, **SMALL | (options or {})).eval()
    return tap.wrap(source, method=method, **{"controller": LAYERS, "anneal_steps": 7} | wrapping)


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_a_model_is_read_again(tmp_path, name, options):
    model = made(name, options=options)
    model.save_pretrained(tmp_path)
    again = tap.from_pretrained(tmp_path)
    images = torch.randn(2, model.in_chans, *model.patch_embed.img_size)
    assert not again.training
    with torch.no_grad():
        assert torch.equal(again(images), model(images))
    assert again.encoder.reducer.settings == model.encoder.reducer.settings
    assert (again.num_classes, again.anneal_steps) == (model.num_classes, 7)
    for key in ("mean", "std", "interpolation"):
        assert again.pretrained_cfg[key] == model.pretrained_cfg[key]


@pytest.mark.parametrize(
    ("method", "task"), [("static", "cls"), ("dynamicvit", "cls"), ("cropr", "cls"), ("tap", "det")]
)
def test_methods_and_tasks(tmp_path, method, task):
    controller = ControllerConfig(layers=(2, 3), schedule=(1, 2)) if method == "static" else LAYERS
    model = made(method=method, task=task, controller=controller, keep_rate=0.25)
    model.save_pretrained(tmp_path)
    again = tap.from_pretrained(tmp_path)
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(again(images), model(images))
        if task == "det":
            for a, b in zip(
                again.forward_intermediates(images)[1], model.forward_intermediates(images)[1], strict=True
            ):
                assert torch.equal(a, b)


def test_trained_steps_and_thresholds_are_kept(tmp_path):
    model = made(method="ats", options={"depth": 12})
    model.calibrate([torch.randn(8, 3, 32, 32)])
    model.save_pretrained(tmp_path)
    assert torch.equal(tap.from_pretrained(tmp_path).encoder.reducer.threshold, model.encoder.reducer.threshold)
    trained = made().train()
    for _ in range(3):
        trained(torch.randn(2, 3, 32, 32))
    trained.save_pretrained(tmp_path / "b")
    assert int(tap.from_pretrained(tmp_path / "b").train_steps) == 3


def test_the_model_card(tmp_path):
    controller = ControllerConfig(layers=(2, 3), schedule=(1, 2))
    made(method="static", controller=controller).save_pretrained(
        tmp_path, data="own photographs", scale="own, 5 classes", speed="12 images/s", limits="toy", license="mit"
    )
    card = (tmp_path / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: tap-vit\nlicense: mit\n")
    for line in (
        "- **Data**: own photographs",
        "- **Scale**: own, 5 classes",
        "- **Keep rate**: 0.5.",
        "- **Counts**: 8 of 16 patches reach the last block in every image. Left after blocks 2, 3: 13, 8. Images",
        "- **Speed**: 12 images/s",
        "- **Limits**: toy",
    ):
        assert line in card
    made().save_pretrained(tmp_path / "b")
    unsaid = (tmp_path / "b" / "README.md").read_text()
    assert "**Data**: not stated." in unsaid
    assert "**Speed**: not measured." in unsaid
    assert "74 are the method's" in unsaid  # 3 d + 2


def test_nothing_is_overwritten_unasked(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(UserError, match=r"README.md: is there already; give another folder, or overwrite=True"):
        made().save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    made().save_pretrained(tmp_path, overwrite=True)
    assert tap.from_pretrained(tmp_path)


def test_a_model_that_cannot_be_described_is_refused(tmp_path):
    model = made()
    model.encoder.vit.blocks[1].mlp.norm = nn.LayerNorm(96)
    with pytest.raises(UserError, match=r"'encoder.vit.blocks.1.mlp.norm.bias' is no part of a plain timm ViT"):
        model.save_pretrained(tmp_path / "a")
    swiglu = timm.create_model("vit_giant_patch14_reg4_dinov2", **SMALL)
    with pytest.raises(UserError, match="blocks of GluMlp, SiLU, LayerNorm have no description"):
        tap.wrap(swiglu, controller=LAYERS).save_pretrained(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_damaged_folders(tmp_path):
    with pytest.raises(UserError, match=r"config.json: there is no such file"):
        tap.from_pretrained(tmp_path)
    made().save_pretrained(tmp_path)
    whole = json.loads((tmp_path / "config.json").read_text())
    for text in ("{", "[]", json.dumps({**whole, "vit": {}}), json.dumps({**whole, "settings": {"depth": 4}})):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(UserError, match=r"config.json: describes no TAP model") as error:
            tap.from_pretrained(tmp_path)
        assert "\n" not in str(error.value)
    (tmp_path / "config.json").write_text(json.dumps({**whole, "num_classes": 6}))
    with pytest.raises(UserError, match=r"model.safetensors: does not fit config.json \(size mismatch for head.weight"):
        tap.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(whole))
    (tmp_path / "model.safetensors").write_bytes((tmp_path / "model.safetensors").read_bytes()[:1000])
    with pytest.raises(UserError, match=r"model.safetensors: cut off or damaged"):
        tap.from_pretrained(tmp_path)
