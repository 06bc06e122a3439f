"""Parameter groups against the values of MAE's public fine-tuning (fixture), and the controller's own rate."""

import json
from pathlib import Path

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tap.config.schema import OptimizerConfig
from tap.encoder.vitdet import place_on_grid
from tap.engine.optim import base_lr, build_optimizer, parameter_groups, scale_parts
from tap.reducers.base import PartRates

PUBLISHED = json.loads((Path(__file__).parent / "mae_lr_decay.json").read_text())


class Controller(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.registers = nn.ParameterDict({"cls": nn.Parameter(torch.randn(width))})
        self.allocation = nn.Linear(width, 1)


class Model(nn.Module):
    """The shape that every model of the project has: encoder.vit, encoder.reducer, head."""

    def __init__(self, width=24, depth=12, **vit):
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.vit = VisionTransformer(
            img_size=16, patch_size=8, embed_dim=width, depth=depth, num_heads=3, num_classes=0, **vit
        )
        self.encoder.reducer = Controller(width)
        self.head = nn.Linear(width, 10)


def table(model, **config):
    groups = parameter_groups(model, OptimizerConfig(lr=1.0, **config))
    return {name: (group["lr_scale"], group["weight_decay"]) for group in groups for name in group["param_names"]}


def test_the_trunk_and_the_head_get_the_factors_of_mae_fine_tuning():
    found = table(Model(), layer_decay=0.65, weight_decay=0.05)
    trunk = {name.removeprefix("encoder.vit."): value for name, value in found.items() if "reducer" not in name}
    assert set(trunk) == set(PUBLISHED)
    for name, (scale, decay) in PUBLISHED.items():
        assert trunk[name] == (pytest.approx(scale, rel=1e-12), decay), name


def test_the_controller_learns_at_its_own_rate_and_its_register_is_not_decayed():
    found = table(Model(), layer_decay=0.65, controller_lr_scale=10.0)
    assert found["encoder.reducer.registers.cls"] == (10.0, 0.0)
    assert found["encoder.reducer.allocation.bias"] == (10.0, 0.0)
    assert found["encoder.reducer.allocation.weight"] == (10.0, 0.05)


def test_the_depth_of_the_trunk_sets_the_first_factor():
    found = table(Model(depth=3, reg_tokens=2), layer_decay=0.5)
    assert found["encoder.vit.pos_embed"] == found["encoder.vit.reg_token"] == (0.5**4, 0.0)
    assert found["encoder.vit.blocks.2.mlp.fc1.weight"] == (0.5, 0.05)


def test_relative_tables_learn_and_decay_with_their_block():
    """As in the public recipe, whose only exceptions are position embedding and norms."""
    model = Model(depth=3, class_token=False, global_pool="avg")
    place_on_grid(model.encoder.vit, 1, (3,), (2, 2), relative=True)
    found = table(model, layer_decay=0.5, weight_decay=0.1)
    assert (
        found["encoder.vit.blocks.0.attn.rel_pos_h"] == found["encoder.vit.blocks.0.attn.qkv.weight"] == (0.5**3, 0.1)
    )
    assert found["encoder.vit.blocks.2.attn.rel_pos_w"] == (0.5, 0.1)


def test_every_trainable_parameter_is_in_exactly_one_group_and_no_frozen_one_is():
    model = Model(depth=2)
    model.encoder.vit.blocks[0].requires_grad_(False)
    groups = build_optimizer(model, OptimizerConfig(lr=1.0, layer_decay=0.7), batch_size=8).param_groups
    listed = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(listed) == sorted(id(parameter) for parameter in model.parameters() if parameter.requires_grad)


def test_a_model_without_a_vit_trunk_learns_everywhere_at_the_full_rate():
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    assert table(model, layer_decay=0.5, weight_decay=0.1) == {
        "0.weight": (1.0, 0.1),
        "0.bias": (1.0, 0.0),
        "1.weight": (1.0, 0.0),
        "1.bias": (1.0, 0.0),
    }


def test_a_module_may_declare_parameters_that_are_not_decayed():
    model = nn.Sequential(nn.Linear(3, 3))
    model[0].no_weight_decay = lambda: {"weight"}
    assert table(model, weight_decay=0.1)["0.weight"] == (1.0, 0.0)


def test_the_base_rate_follows_the_batch_only_with_a_reference():
    assert base_lr(OptimizerConfig(lr=1e-3), batch_size=512) == 1e-3
    assert base_lr(OptimizerConfig(lr=1e-3, lr_reference_batch=256), batch_size=512) == 2e-3


def test_a_method_scales_parts_of_the_model():
    optimizer = build_optimizer(Model(depth=2), OptimizerConfig(lr=0.5, layer_decay=0.7), batch_size=8)
    before = [group["lr"] for group in optimizer.param_groups]
    scale_parts(optimizer, PartRates(reducer=2.0, backbone=0.0, head=0.5))
    factors = {"reducer": 2.0, "backbone": 0.0, "head": 0.5}
    assert {group["part"] for group in optimizer.param_groups} == set(factors)
    for group, rate in zip(optimizer.param_groups, before, strict=True):
        assert group["lr"] == rate * factors[group["part"]]
        prefix = {"reducer": "encoder.reducer.", "backbone": "encoder.vit.", "head": "head."}[group["part"]]
        assert all(name.startswith(prefix) for name in group["param_names"])
