"""Models for use in one's own code, by name, here and in timm."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import nn

import tap
import tap.factory
from tap.config.methods import methods_of
from tap.config.register import ControllerConfig
from tap.errors import UserError
from tap.tasks.classification.model import Classifier

NAME = "vit_tiny_patch16_224"
create = partial(tap.create_model, NAME, image_size=48, num_classes=5)


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(2, 3, 48, 48, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("method", methods_of("cls"))
def test_logits_and_trace(method, images):
    model = create(method=method, keep_rate=0.5).eval()
    with torch.no_grad():
        logits = model(images)
        again, trace = model(images, return_trace=True)
    assert logits.shape == (2, 5)
    assert torch.equal(again, logits)
    if method not in ("evovit", "svit"):  # whose tokens come back
        assert trace.removals.sum(dim=1).tolist() == (9 - trace.final_counts).tolist()
    assert trace.shares.shape == trace.removals.shape
    if not model.encoder.reducer.method.calibrated:  # EViT adds a fused token
        assert trace.final_counts.tolist() == [{"dense": 9, "evit": 6}.get(method, 5)] * 2


def test_defaults_are_the_paper_s():
    with torch.device("meta"):
        model = tap.create_model("vit_base_patch16_224.mae")
    encoder = model.encoder
    assert (encoder.vit.embed_dim, len(encoder.vit.blocks), encoder.vit.blocks[0].attn.num_heads) == (768, 12, 12)
    assert encoder.vit.patch_embed.grid_size == (14, 14)
    assert encoder.vit.norm.eps == 1e-6
    assert encoder.reducer.name == "tap"
    assert encoder.reducer.added_parameters() == 2306
    assert (encoder.reducer.keep_rate, encoder.reducer.settings.layers) == (0.5, (3, 6, 9))
    assert model.head.out_features == 1000
    assert encoder.read_blocks == ()


def test_keep_rate_1_is_the_dense_model(images):
    model = create(keep_rate=1.0).eval()
    with torch.no_grad():
        expected = model.head(model.encoder.vit.forward_features(images)[:, 0])
        torch.testing.assert_close(model(images), expected, rtol=1e-6, atol=1e-6)


def test_weights_are_loaded(tmp_path, images):
    torch.manual_seed(0)
    source = timm.create_model(NAME, img_size=48, num_classes=7)
    save_file(source.state_dict(), tmp_path / "vit.safetensors")
    model = create(weights=tmp_path / "vit.safetensors", keep_rate=1.0).eval()
    source.eval()
    with torch.no_grad():
        assert torch.equal(model.encoder.vit.forward_features(images), source.forward_features(images))
    larger = create(weights=str(tmp_path / "vit.safetensors"), image_size=64)
    assert larger.encoder.vit.pos_embed.shape == (1, 17, 192)
    with pytest.raises(UserError, match="its sha256 is"):
        create(weights=tmp_path / "vit.safetensors", sha256="0" * 64)
    with pytest.raises(UserError, match="of another architecture"):
        tap.create_model("vit_small_patch16_224", weights=tmp_path / "vit.safetensors")


def test_options_reach_the_model():
    controller = ControllerConfig(layers=(2, 5), tau_start=0.5)
    model = create(channels=1, drop_path=0.1, controller=controller, dynamic_img_size=True).eval()
    assert model.encoder.vit.patch_embed.proj.in_channels == 1
    assert model.encoder.vit.blocks[-1].drop_path1.drop_prob == pytest.approx(0.1)
    assert model.encoder.reducer.settings.layers == (2, 5)
    assert model.encoder.reducer.temperature == 0.5
    with torch.no_grad():
        assert model(torch.randn(1, 1, 16, 96)).shape == (1, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "vit_tiny_patch16_2240"}, r"timm does not know 'vit_tiny_patch16_2240'; near names: vit_tiny"),
        ({"name": "resnet18"}, "'resnet18' is not a plain Vision Transformer"),
        ({"method": "tapp"}, "'tapp' is not known; choose one of"),
        ({"task": "seg"}, "builds 'cls' models, not 'seg'"),
        ({"task": "classification"}, "not 'classification'"),
        ({"keep_rate": 0}, r"keep_rate: 0 is outside \(0, 1\]"),
        ({"keep_rate": 1.5}, "keep_rate: 1.5 is outside"),
        ({"keep_rate": -0.5}, "keep_rate: -0.5 is outside"),
        ({"image_size": 50}, "image_size 50 is not a multiple of the patch size 16"),
        ({"image_size": 0}, "image_size: must be greater than or equal to 8, got 0"),
        ({"channels": 0}, "channels: must be greater than or equal to 1, got 0"),
        ({"drop_path": 1.0}, "drop_path: must be less than 1, got 1.0"),
        ({"num_classes": -1}, "num_classes: -1 outputs"),
        ({"method": "algm"}, "'algm' does not have the task 'cls', only seg; choose one of dense"),
        ({"anneal_steps": 0}, "anneal_steps: 0 is no length"),
        ({"controller": ControllerConfig(layers=(3, 13))}, "block 13 does not exist in a model with 12 blocks"),
        ({"weights": "absent.safetensors"}, "absent.safetensors: there is no such weights file"),
    ],
)
def test_wrong_arguments(options, message):
    """One line that names the parameter."""
    with torch.device("meta"), pytest.raises(UserError, match=message) as error:
        tap.create_model(**{"name": NAME, "image_size": 48} | options)
    assert "\n" not in str(error.value)


def test_wrong_input_size(images):
    model = create().eval()
    with pytest.raises(UserError, match="fixed to 48x48"):
        model(torch.randn(1, 3, 64, 64))
    with pytest.raises(UserError, match="not multiples of the patch 16x16"):
        model(torch.randn(1, 3, 48, 40))


def test_timm_finds_the_model():
    with torch.device("meta"):
        model = timm.create_model(
            "tap_vit_base_patch16_224", num_classes=10, keep_rate=0.3, in_chans=1, img_size=64, drop_path_rate=0.2
        )
    assert isinstance(model, Classifier)
    assert isinstance(model.encoder.vit, VisionTransformer)
    assert (model.head.out_features, model.encoder.reducer.keep_rate) == (10, 0.3)
    assert model.encoder.vit.patch_embed.proj.weight.shape == (768, 1, 16, 16)
    assert model.encoder.vit.patch_embed.grid_size == (4, 4)
    assert model.encoder.vit.blocks[-1].drop_path1.drop_prob == pytest.approx(0.2)
    assert "tap_vit_base_patch16_224" in timm.list_models("tap_*")


def test_timm_s_pretrained_is_refused():
    with pytest.raises(UserError, match="no weights are published"):
        timm.create_model("tap_vit_base_patch16_224", pretrained=True)


def test_the_head_starts_almost_silent():
    """MAE's fine-tuning: the first logits are nearly equal for all classes."""
    head = create().head
    assert isinstance(head, nn.Linear)
    assert head.weight.std().item() == pytest.approx(2e-5, rel=0.1)
    assert not head.bias.any()


@pytest.mark.slow
def test_importing_the_package_before_timm_tells_it_the_names():
    code = "import tap, importlib.util as util; util.find_spec('timm')"  # as transformers looks for it
    code += "; import timm; assert timm.is_model('tap_vit_base_patch16_224') and timm.list_models('tap_*')"
    code += "; import sys; assert not [f for f in sys.meta_path if type(f).__module__.startswith('tap')]"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(tap.__file__).parents[1])


@pytest.mark.parametrize("arguments", [["-m", "tap.runs"], ["-c", "import sys, snakemake; import tap.config.load"]])
def test_command_line_and_workflow_do_not_wait_for_torch(arguments):
    code = "; assert not {'torch', 'timm'} & set(sys.modules)" if arguments[0] == "-c" else ""
    command = [sys.executable, "-X", "importtime", arguments[0], arguments[1] + code]
    done = subprocess.run(command, check=True, cwd=Path(tap.__file__).parents[1], capture_output=True, text=True)
    assert not {line.split("|")[-1].strip() for line in done.stderr.splitlines()} & {"torch", "timm"}


def test_the_package_has_no_other_names():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tap.nothing  # noqa: B018
