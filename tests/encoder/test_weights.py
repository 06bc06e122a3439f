"""Reading backbone weights: public files fit, wrong ones are refused and change nothing."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import checkpoint_filter_fn
from tiny_models import tiny_vit
from torch import Tensor, nn

from tap.config.model import ModelConfig
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.weights import load_backbone, read_tensors
from tap.errors import UserError
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.dense import Dense

REFERENCE = Path(__file__).parent / "data" / "reference_vit.npz"


def state(vit: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in vit.state_dict().items()}


def assert_untouched(vit: nn.Module, before: dict[str, Tensor]) -> None:
    assert all(torch.equal(value, before[name]) for name, value in vit.state_dict().items())


def save(path: Path, tensors: dict[str, Tensor], wrapper: str | None = None) -> Path:
    if path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors if wrapper is None else {wrapper: tensors, "epoch": 3}, path)
    return path


@pytest.fixture
def source() -> dict[str, Tensor]:
    return state(tiny_vit(seed=3))


@pytest.fixture
def target() -> nn.Module:
    return tiny_vit(seed=4)


def test_public_mae_values(tmp_path):
    """Features and logits of the public MAE classifier, through our loader and our encoder."""
    reference = np.load(REFERENCE)
    tensors = {name[2:]: torch.from_numpy(reference[name]) for name in reference.files if name.startswith("w.")}
    config = ModelConfig(image_size=224, patch_size=16, width=48, depth=12, heads=3)
    vit = build_vit(config)
    load_backbone(vit, save(tmp_path / "mae.safetensors", tensors))
    encoder = SparseEncoder(vit, Dense(ReducerSettings(48, 12))).eval()
    images = torch.from_numpy(reference["img_u8"]).float() / 127.5 - 1
    with torch.no_grad():
        features = encoder.pool(encoder(images))
        logits = nn.functional.linear(features, tensors["head.weight"], tensors["head.bias"])
    torch.testing.assert_close(features, torch.from_numpy(reference["features"]), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits, torch.from_numpy(reference["logits"]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("file", "wrapper"),
    [("a.safetensors", None), ("a.pth", None), ("a.pth", "model"), ("a.pt", "state_dict")],
)
def test_formats(tmp_path, source, target, file, wrapper):
    path = save(tmp_path / file, source, wrapper)
    load_backbone(target, path, hashlib.sha256(path.read_bytes()).hexdigest().upper())
    assert_untouched(target, source)


def test_the_bare_pickle_of_old_torch(tmp_path, source, target):
    torch.save({"model": source}, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    load_backbone(target, tmp_path / "old.pth")
    assert_untouched(target, source)


def test_public_mae_names(tmp_path, source, target):
    """Pre-training checkpoints carry a decoder and a mask token; fine-tuned ones a head."""
    extra = {
        "mask_token": torch.randn(1, 1, 8),
        "decoder_pos_embed": torch.randn(1, 17, 8),
        "decoder_embed.weight": torch.randn(8, 16),
        "decoder_blocks.0.norm1.weight": torch.randn(8),
        "decoder_norm.weight": torch.randn(8),
        "decoder_pred.weight": torch.randn(12, 8),
        "head.weight": torch.randn(1000, 16),
        "head.bias": torch.randn(1000),
    }
    load_backbone(target, save(tmp_path / "mae.pth", source | extra, "model"))
    assert_untouched(target, source)


def test_the_pickles_of_detectron2_s_model_zoo(tmp_path, source, target):
    """Arrays under `model` beside strings; written by any protocol."""
    arrays = {name: value.numpy() for name, value in source.items()}
    for protocol in (0, 2, 4):
        content = pickle.dumps({"model": arrays, "__author__": "someone"}, protocol=protocol)
        if protocol == 0:  # a text, in which numpy 2 is easily made the numpy 1 of the public files
            content = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
        path = tmp_path / f"model_{protocol}.pkl"
        path.write_bytes(content)
        load_backbone(target, path)
        assert_untouched(target, source)


def test_a_trunk_takes_the_weights_of_an_mae_run(tmp_path):
    """Class token and its position are left behind, the grid is resized, relative tables stay at zero."""
    plain = tiny_vit(grid=(4, 4), seed=3)
    trunk = tiny_vit(grid=(6, 5), window=3, global_blocks=(2, 4), seed=4, fc_norm=False)
    tables = {name for name, _ in trunk.named_parameters() if ".rel_pos_" in name}
    with torch.no_grad():
        for name in tables:
            trunk.get_parameter(name).zero_()
    own = {f"encoder.vit.{name}": value for name, value in state(plain).items()}
    load_backbone(trunk, save(tmp_path / "mae.safetensors", own | {"mask_token": torch.randn(1, 1, 8)}))
    grid = plain.pos_embed[:, 1:].mT.unflatten(2, (4, 4))
    resized = nn.functional.interpolate(grid, (6, 5), mode="bicubic").flatten(2).mT
    torch.testing.assert_close(trunk.pos_embed, resized)
    for name, value in trunk.state_dict().items():
        if name in tables:
            assert not value.any()
        elif name != "pos_embed":
            assert torch.equal(value, plain.state_dict()[name]), name


def test_a_trunk_takes_the_weights_of_a_trunk(tmp_path):
    source, target = (tiny_vit(window=3, global_blocks=(2, 4), seed=seed, fc_norm=False) for seed in (3, 4))
    load_backbone(target, save(tmp_path / "trunk.safetensors", state(source)))
    assert_untouched(target, state(source))


def test_weights_of_the_project_s_own_runs(tmp_path, source, target):
    """`model.safetensors` of a run names the backbone `encoder.vit.`; reducer and head stay behind."""
    own = {f"encoder.vit.{name}": value for name, value in source.items()}
    own |= {"encoder.reducer.controller.allocation.weight": torch.randn(1, 16), "head.weight": torch.randn(10, 16)}
    load_backbone(target, save(tmp_path / "model.safetensors", own))
    assert_untouched(target, source)


def test_half_precision_files(tmp_path, source, target):
    load_backbone(target, save(tmp_path / "half.safetensors", {k: v.half() for k, v in source.items()}))
    assert target.pos_embed.dtype == torch.float32
    assert_untouched(target, {name: value.half().float() for name, value in source.items()})


def test_position_embeddings_are_resized(tmp_path, source):
    """Bicubic for the grid, the class token's position as it is; a constant stays constant."""
    path = save(tmp_path / "a.safetensors", source)
    larger = tiny_vit(grid=(6, 5), seed=4)
    load_backbone(larger, path)
    assert torch.equal(larger.pos_embed[:, 0], source["pos_embed"][:, 0])
    grid = source["pos_embed"][:, 1:].view(1, 4, 4, 16).permute(0, 3, 1, 2)
    expected = nn.functional.interpolate(grid, (6, 5), mode="bicubic", antialias=True, align_corners=False)
    torch.testing.assert_close(larger.pos_embed[:, 1:], expected.permute(0, 2, 3, 1).reshape(1, 30, 16))
    others = {name: value for name, value in source.items() if name != "pos_embed"}
    assert all(torch.equal(larger.state_dict()[name], value) for name, value in others.items())


@pytest.mark.parametrize("tokens", [{"class_token": True}, {"class_token": True, "reg_tokens": 4}])
def test_positions_without_class_and_register_are_resized(tmp_path, tokens):
    """DeiT III, DINOv2 with registers: only patches have positions, and timm resizes those."""
    sizes = {"no_embed_class": True, "global_pool": "token"} | tokens
    source, target = tiny_vit(seed=3, **sizes), tiny_vit(grid=(6, 6), seed=4, **sizes)
    load_backbone(target, save(tmp_path / "a.safetensors", state(source)))
    expected = checkpoint_filter_fn(state(source), target)
    assert_untouched(target, expected)
    again = tiny_vit(seed=4, **sizes)
    load_backbone(again, tmp_path / "a.safetensors")
    assert_untouched(again, state(source))


def test_registers_with_positions_are_resized(tmp_path):
    sizes = {"class_token": True, "reg_tokens": 2, "global_pool": "token"}
    source, target = tiny_vit(seed=3, **sizes), tiny_vit(grid=(6, 6), seed=4, **sizes)
    load_backbone(target, save(tmp_path / "a.safetensors", state(source)))
    assert_untouched(target, checkpoint_filter_fn(state(source), target))


def test_a_class_token_does_not_lose_its_position_without_a_word(tmp_path, source):
    vit = tiny_vit(seed=4, no_embed_class=True, class_token=True, global_pool="token")
    before = state(vit)
    with pytest.raises(UserError, match="of another shape \\(first: pos_embed"):
        load_backbone(vit, save(tmp_path / "a.safetensors", source))
    assert_untouched(vit, before)


@pytest.mark.parametrize("name", ["head.weight", "fc_norm.weight", "encoder.vit.fc_norm.weight"])
def test_a_fine_tuned_file_is_no_pretraining(tmp_path, source, target, name):
    """What is said to be a pre-training is refused with a classifier, unless its hash says that it is meant."""
    prefix = "encoder.vit." if name.startswith("encoder") else ""
    tensors = {f"{prefix}{key}": value for key, value in source.items()} | {name: torch.ones(16)}
    path, before = save(tmp_path / "tuned.pth", tensors, "model"), state(target)
    with pytest.raises(UserError, match=r"tuned.pth: is no MAE pre-training but fine-tuned"):
        load_backbone(target, path, pretrained_only=True)
    assert_untouched(target, before)
    load_backbone(target, path, hashlib.sha256(path.read_bytes()).hexdigest(), pretrained_only=True)
    assert_untouched(target, source)


def test_a_model_without_class_token_drops_its_position(tmp_path, source):
    path = save(tmp_path / "a.safetensors", source)
    for grid in ((4, 4), (2, 3)):
        without = tiny_vit(grid=grid, seed=4, class_token=False, fc_norm=False)
        load_backbone(without, path)
        assert without.pos_embed.shape == (1, grid[0] * grid[1], 16)
        if grid == (4, 4):
            assert torch.equal(without.pos_embed, source["pos_embed"][:, 1:])
        assert torch.equal(without.norm.weight, source["norm.weight"])


def broken(tmp_path: Path, source: dict[str, Tensor]) -> dict[str, tuple[Path, str]]:
    """Files that cannot be used, with what the message must say."""
    whole = {suffix: save(tmp_path / f"whole{suffix}", source).read_bytes() for suffix in (".safetensors", ".pth")}
    files = {"no such weights file": tmp_path / "absent.safetensors"}
    found = {
        "missing": (files["no such weights file"], "there is no such weights file"),
        "folder": (tmp_path, "no such"),
    }
    for suffix, content in whole.items():
        for share in (0.0, 0.01, 0.3, 0.7, 0.999):
            path = tmp_path / f"cut{share}{suffix}"
            path.write_bytes(content[: int(len(content) * share)])
            found[f"{share} of {suffix}"] = (path, "cut off or damaged")
    text = tmp_path / "text.safetensors"
    text.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    found["text"] = (text, "cut off or damaged")
    code = tmp_path / "code.pth"
    torch.save({"model": source, "args": Path("/")}, code)
    found["objects"] = (code, "pickled objects")
    plain = tmp_path / "plain.pth"
    plain.write_bytes(pickle.dumps(print, protocol=2))
    found["code"] = (plain, "pickled objects")
    zoo = tmp_path / "code.pkl"
    zoo.write_bytes(pickle.dumps({"model": {"x": print}}))
    found["code among arrays"] = (zoo, "pickled objects")
    for name, content in (("list", [torch.ones(2)]), ("empty", {}), ("numbers", {"lr": 0.1})):
        path = tmp_path / f"{name}.pth"
        torch.save(content, path)
        found[name] = (path, "does not hold a table of named tensors")
    return found


def test_unreadable_files(tmp_path, source, target):
    before = state(target)
    for name, (path, message) in broken(tmp_path, source).items():
        with pytest.raises(UserError) as error:
            load_backbone(target, path)
        assert message in str(error.value), name
        assert str(path) in str(error.value), name
        assert "\n" not in str(error.value), name
    assert_untouched(target, before)


def test_no_code_of_a_file_runs(tmp_path):
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "sprung",)

    torch.save({"model": Trap()}, tmp_path / "trap.pth")
    with pytest.raises(UserError, match="foreign code"):
        read_tensors(tmp_path / "trap.pth")
    assert not (tmp_path / "sprung").exists()


def test_wrong_hash(tmp_path, source, target):
    before = state(target)
    path = save(tmp_path / "a.safetensors", source)
    with pytest.raises(UserError, match=r"its sha256 is [0-9a-f]{64}, but 0123 is expected"):
        load_backbone(target, path, "0123")
    assert_untouched(target, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 24}, "of another shape"),
        ({"depth": 3}, r"12 missing \(first: blocks.3."),
        ({"depth": 5}, r"12 unknown \(first: blocks.4."),
        ({"qk_norm": True}, "unknown"),
        ({"init_values": 0.1}, "unknown"),
        ({"class_token": False}, "missing"),
        ({"mlp_ratio": 2.0}, "of another shape"),
        ({"grid": (2, 3)}, "of another shape"),
        ({"in_chans": 1}, "of another shape"),
    ],
)
def test_other_architectures(tmp_path, target, options, message):
    before = state(target)
    path = save(tmp_path / "other.safetensors", state(tiny_vit(**options)))
    with pytest.raises(UserError, match=message) as error:
        load_backbone(target, path)
    assert str(path) in str(error.value)
    assert "of another architecture" in str(error.value)
    assert_untouched(target, before)


def test_unknown_and_missing_keys(tmp_path, source, target):
    before = state(target)
    for tensors, message in (
        (source | {"extra.weight": torch.ones(1)}, r"1 unknown \(first: extra.weight\)"),
        ({name: value for name, value in source.items() if name != "blocks.0.attn.qkv.bias"}, "1 missing"),
        ({"x": torch.ones(1)}, "missing"),
    ):
        with pytest.raises(UserError, match=message):
            load_backbone(target, save(tmp_path / "keys.safetensors", tensors))
    assert_untouched(target, before)


WRAPPERS = ["module.", "_orig_mod.", "backbone.", "model.", "module._orig_mod.", "encoder.vit."]


@pytest.mark.parametrize("prefix", WRAPPERS)
def test_what_wrapped_a_model_is_taken_off(tmp_path, source, target, prefix):
    tensors = {f"{prefix}{name}": value for name, value in source.items()} | {"decode_head.weight": torch.zeros(2)}
    load_backbone(target, save(tmp_path / "a.pth", tensors, "state_dict"))
    assert_untouched(target, source)


def test_two_backbones_in_a_file_are_refused(tmp_path, source, target):
    twice = {f"{who}.backbone.{name}": value for who in ("student", "teacher") for name, value in source.items()}
    before = state(target)
    with pytest.raises(UserError, match="of another architecture"):
        load_backbone(target, save(tmp_path / "a.pth", twice))
    assert_untouched(target, before)


def test_a_globally_pooled_fine_tuning_keeps_its_norm(tmp_path, target):
    source = state(tiny_vit(seed=3, global_pool="avg"))
    path = save(tmp_path / "a.safetensors", source | {"head.weight": torch.zeros(5, 16), "head.bias": torch.zeros(5)})
    pooled = tiny_vit(seed=4, global_pool="avg")
    load_backbone(pooled, path)
    assert_untouched(pooled, source)
    before = state(target)
    with pytest.warns(UserWarning, match=r"its norm \(fc_norm\) has no place .* give global_pool='avg' to keep it"):
        load_backbone(target, path)
    assert torch.equal(target.norm.weight, before["norm.weight"])
    assert torch.equal(target.cls_token, source["cls_token"])
