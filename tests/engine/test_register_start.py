"""Where a register starts: exactly at the pre-training's class token with its position, in every kind of model."""

from types import SimpleNamespace

import pytest
import timm
import torch
from safetensors.torch import save_file
from toy_task import toy_spec

import tap
from tap.config.register import ControllerConfig
from tap.core.register import Controller
from tap.encoder.weights import class_token_in, class_token_of, load_backbone
from tap.engine.joint import Member, build_joint
from tap.engine.register_start import start_register
from tap.errors import UserError
from tap.factory import wrap

SIZES = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "num_heads": 2, "depth": 4, "num_classes": 0}
START = ControllerConfig(layers=(2, 3), register_start="class_token")


def vit(**options):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", **SIZES | options)
    with torch.no_grad():
        if model.cls_token is not None:
            model.cls_token.normal_()
        model.pos_embed.normal_()
    return model


@pytest.fixture
def pretraining(tmp_path):
    """A file with a backbone, and the token that enters its first block."""
    model = vit()
    path = tmp_path / "mae.safetensors"
    save_file({f"encoder.vit.{name}": value for name, value in model.state_dict().items()}, path)
    return path, model.cls_token.detach()[0, 0] + model.pos_embed.detach()[0, 0]


def spec_of(method, path, start="class_token"):
    spec = toy_spec(method, weights=str(path))
    return spec.model_copy(update={"controller": spec.controller.model_copy(update={"register_start": start})})


def built():
    return SimpleNamespace(encoder=SimpleNamespace(reducer=SimpleNamespace(controller=Controller(24))))


def test_the_token_is_what_enters_the_first_block(pretraining):
    path, wanted = pretraining
    model = vit()
    load_backbone(model, path)
    entering = model._pos_embed(model.patch_embed(torch.zeros(1, 3, 32, 32)))[0, 0]
    for found in (class_token_of(model), class_token_in(path)):
        assert torch.equal(found, wanted)
        assert torch.equal(found, entering)


def test_a_token_without_a_position_of_its_own_is_taken_as_it_is(tmp_path):
    model = vit(no_embed_class=True)
    path = tmp_path / "plain.safetensors"
    save_file(model.state_dict(), path)
    for found in (class_token_of(model), class_token_in(path)):
        assert torch.equal(found, model.cls_token.detach()[0, 0])


def test_a_run_starts_from_the_file_of_its_pre_training(pretraining):
    path, wanted = pretraining
    model = built()
    assert start_register(spec_of("tap", path), model) == path
    assert torch.equal(model.encoder.reducer.controller.registers["cls"], wanted)
    drawn = built()
    before = drawn.encoder.reducer.controller.registers["cls"].clone()
    assert start_register(spec_of("tap", path, "normal"), drawn) is None
    assert torch.equal(drawn.encoder.reducer.controller.registers["cls"], before)
    assert start_register(spec_of("static", path), SimpleNamespace()) is None  # a method without a register


def test_a_file_or_a_model_without_a_class_token_is_one_message(tmp_path):
    path = tmp_path / "gap.safetensors"
    model = vit(class_token=False, global_pool="avg")
    save_file(model.state_dict(), path)
    with pytest.raises(UserError, match=r"gap.safetensors: has no class token.*register_start to 'normal'"):
        start_register(spec_of("tap", path), built())
    with pytest.raises(UserError, match=r"controller.register_start: this model has no class token"):
        wrap(model, controller=START)


def test_a_model_of_ones_own_starts_from_its_token_and_other_methods_do_not_notice():
    model = vit()
    wrapped = tap.wrap(model, controller=START)
    assert torch.equal(wrapped.encoder.reducer.controller.registers["cls"], class_token_of(model))
    assert hasattr(tap.wrap(model, method="attn_topk", controller=START), "encoder")


@pytest.mark.parametrize("given", [True, False])
def test_every_task_of_a_joint_model_starts_from_the_bases_token(pretraining, given):
    from joint_views import View

    class Pipeline:
        def __init__(self, name):
            self.name = name

        def build_model(self, spec):
            torch.manual_seed(spec.seed)
            return View(self.name)

    path = pretraining[0]
    base = View("cls").encoder.vit
    with torch.no_grad():
        base.cls_token.normal_()
    wanted = class_token_of(base)
    tensors = {n: p for n, p in base.state_dict().items() if "low_rank" not in n}
    save_file({f"encoder.vit.{name}": value for name, value in tensors.items()}, path)
    members = {task: Member(Pipeline(task), spec_of("tap_f", path)) for task in ("cls", "seg")}
    model = build_joint(members, path if given else None)
    if not given:
        wanted = class_token_of(model.view("cls").encoder.vit)
    for task in members:
        assert torch.equal(model.view(task).encoder.reducer.controller.registers[task], wanted)
