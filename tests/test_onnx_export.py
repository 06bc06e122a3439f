"""ONNX files answer as the model does; without the packages that write them, one line says so."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tap
from tap.config.register import ControllerConfig
from tap.errors import UserError
from tap.onnx_export import export_onnx

VIT: dict[str, Any] = {"image_size": 32, "patch_size": 8, "embed_dim": 24, "num_heads": 2, "depth": 4}
SCHEDULE = ControllerConfig(layers=(2, 3), schedule=(1, 2))
INSTALLED = all(importlib.util.find_spec(name) for name in ("onnx", "onnxscript", "onnxruntime"))


def made(**options: Any) -> Any:
    torch.manual_seed(0)
    given = {"controller": SCHEDULE, "num_classes": 5}
    model = tap.create_model("vit_tiny_patch16_224", **VIT | given | options).eval()
    for weight in (p for p in model.parameters() if p.ndim > 1):
        nn.init.trunc_normal_(weight, std=0.2)  # rankings and logits that differ from image to image
    return model


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="onnx, onnxscript and onnxruntime are not part of the environment")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["tap", "tome", "evit"])
def test_a_runtime_of_onnx_gives_the_model_s_answer(method, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model, images = made(method=method), torch.randn(3, 3, 32, 32)
    path = export_onnx(model, images, tmp_path / "model.onnx")
    session = runtime.InferenceSession(path)
    (given,) = session.get_inputs()
    for other in (images, torch.randn(3, 3, 32, 32), 5 * torch.randn(3, 3, 32, 32)):
        (found,) = session.run(None, {given.name: other.numpy()})
        expected = model(other).detach().numpy()
        assert np.ptp(expected) > 1
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def pretend(monkeypatch, *installed):
    monkeypatch.setattr("tap.onnx_export._is_installed", lambda package: package in installed)


def test_without_the_packages_one_line_says_what_to_install(monkeypatch, tmp_path):
    pretend(monkeypatch, "onnx")
    with pytest.raises(UserError, match="export: ONNX needs onnxscript; pip install onnx onnxscript"):
        export_onnx(made(), torch.zeros(1, 3, 32, 32), tmp_path / "model.onnx")


def test_what_is_refused_before_anything_is_traced(monkeypatch, tmp_path):
    pretend(monkeypatch, "onnx", "onnxscript")
    images, file = torch.zeros(1, 3, 32, 32), tmp_path / "model.onnx"
    with pytest.raises(UserError, match="the model is in training mode"):
        export_onnx(made().train(), images, file)
    with pytest.raises(UserError, match=r"export: how many patches 'tap' keeps in a block depends on the image"):
        export_onnx(made(controller=ControllerConfig(layers=(2, 3))), images, file)
    file.write_bytes(b"mine")
    with pytest.raises(UserError, match=r"model\.onnx: is there already"):
        export_onnx(made(), images, file)
    assert file.read_bytes() == b"mine"
