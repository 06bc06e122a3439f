"""Weights as files: what fits is loaded exactly, what does not is refused by name and touches nothing."""

import hashlib
import json
import pickle

import pytest
import torch
from safetensors import safe_open
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tap.engine.checkpoint import load_weights, save_weights
from tap.errors import UserError


def vit(width=12, depth=3, size=16, **options):
    torch.manual_seed(width + depth + size)
    return VisionTransformer(
        img_size=size, patch_size=4, embed_dim=width, depth=depth, num_heads=2, num_classes=0, **options
    )


class Model(nn.Module):
    def __init__(self, reducer=False, **options):
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.vit = vit(**options)
        if reducer:
            self.encoder.reducer = nn.Linear(12, 1)
        self.head = nn.Linear(12, 3)


@pytest.fixture
def saved(tmp_path):
    model = Model()
    return save_weights(tmp_path / "model.safetensors", model.state_dict(), {"run": "cls/dense"}), model


def untouched(model, before):
    return all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def clone(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def refused(path, model, match, **options):
    before = clone(model)
    with pytest.raises(UserError, match=match) as caught:
        load_weights(path, model, **options)
    assert str(path) in str(caught.value)
    assert untouched(model, before)


def test_weights_and_what_they_say_of_themselves_come_back(saved):
    path, model = saved
    other = Model()
    nn.init.zeros_(other.head.weight)
    load_weights(path, other, expected_sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    assert untouched(other, model.state_dict())
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["tap"]) == {"run": "cls/dense"}


def test_equal_weights_give_equal_bytes(tmp_path):
    about = {name: name for name in "qwertyuiop"}
    files = [save_weights(tmp_path / f"{i}.safetensors", Model().state_dict(), about) for i in range(4)]
    assert len({file.read_bytes() for file in files}) == 1


@pytest.mark.parametrize("wrap", [lambda state: state, lambda state: {"model": state}, lambda s: {"state_dict": s}])
@pytest.mark.parametrize("old_format", [False, True])
def test_a_torch_file_of_tensors_alone_is_read(tmp_path, wrap, old_format):
    model, other = Model(), Model()
    nn.init.zeros_(other.head.weight)
    path = tmp_path / "weights.pth"
    torch.save(wrap(model.state_dict()), path, _use_new_zipfile_serialization=not old_format)
    load_weights(path, other)
    assert untouched(other, model.state_dict())


def test_a_missing_file(tmp_path):
    refused(tmp_path / "none.safetensors", Model(), "there is no such weights file")


@pytest.mark.parametrize("name", ["model.safetensors", "zip.pth", "bare.pth"])
def test_a_file_that_was_cut_off_anywhere(tmp_path, name):
    path, model = tmp_path / name, nn.Linear(5, 3)
    if name == "model.safetensors":
        save_weights(path, model.state_dict(), {})
    else:
        torch.save(model.state_dict(), path, _use_new_zipfile_serialization=name == "zip.pth")
    data = path.read_bytes()
    # A bare pickle has no ending to tell that it was cut: there, "is no checkpoint" may be all that can be said.
    expected = "cut off or damaged" if name != "bare.pth" else "cut off or damaged|is no checkpoint"
    for size in (*range(0, len(data), 29), len(data) - 1):
        path.write_bytes(data[:size])
        refused(path, model, expected)


def test_a_file_that_was_edited(saved):
    path, _ = saved
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    refused(path, Model(), "is expected", expected_sha256=digest)


def test_a_pickle_that_would_run_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return (exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",))

    for name, write in (("new.pth", torch.save), ("bare.pth", lambda x, path: path.write_bytes(pickle.dumps(x, 2)))):
        write({"model": Model().state_dict(), "args": Evil()}, tmp_path / name)
        refused(tmp_path / name, Model(), "pickled objects")
    assert not (tmp_path / "ran").exists()


def test_a_torch_file_without_named_tensors(tmp_path):
    for content in ([torch.zeros(1)], {"epoch": 3}, {}):
        torch.save(content, tmp_path / "odd.pth")
        refused(tmp_path / "odd.pth", Model(), "named tensors")


def test_another_width_is_named_with_both_shapes(saved):
    refused(saved[0], Model(width=24), r"'encoder\.vit\.cls_token' is \(1, 1, 12\) in the file and \(1, 1, 24\)")


def test_another_depth_is_named_by_what_is_missing_or_too_much(saved):
    refused(saved[0], Model(depth=4), r"lacks 12 of the model's tensors \(encoder\.vit\.blocks\.3\.")
    refused(saved[0], Model(depth=2), r"has 12 tensors that the model does not have \(encoder\.vit\.blocks\.2\.")


def test_another_architecture_is_named_by_what_it_has(saved):
    refused(saved[0], nn.Sequential(nn.Linear(3, 3)), r"another architecture: it has encoder\.vit\..*the model 0\.bias")


def test_new_parts_keep_their_values_and_named_parts_are_left_out(saved):
    path, model = saved
    method = Model(reducer=True)
    refused(path, method, "lacks 2")
    before = clone(method)
    load_weights(path, method, new=("encoder.reducer.",))
    assert torch.equal(method.encoder.reducer.weight, before["encoder.reducer.weight"])
    assert torch.equal(method.head.weight, model.head.weight)
    trunk = nn.Module()
    trunk.encoder = nn.Module()
    trunk.encoder.vit = vit()
    refused(path, trunk, "has 2 tensors")
    load_weights(path, trunk, left_out=("head.",))


def test_an_unwritable_place_keeps_what_was_there(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot be written"):
        save_weights(tmp_path / "file" / "model.safetensors", {}, {})
    assert (tmp_path / "file").read_text() == "in the way"
