"""Building encoders from settings: seeds, names, and what is refused."""

from __future__ import annotations

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer

from tap.config.data import DataConfig
from tap.config.measuring import EvalConfig
from tap.config.model import ModelConfig
from tap.config.options import MethodOptions
from tap.config.options.dtop import DtopOptions
from tap.config.register import ControllerConfig
from tap.config.schema import JobSpec, OptimizerConfig, PretrainConfig, TrainConfig
from tap.encoder.sparse_vit import SparseEncoder
from tap.errors import UserError
from tap.method_facts import Method
from tap.reducers.base import Reducer, ReducerSettings
from tap.reducers.build import build_encoder, build_vit
from tap.reducers.registry import available, get, register
from tap.task_facts import TASKS

SIZES = {"image_size": 16, "patch_size": 4, "channels": 1, "width": 16, "depth": 3, "heads": 2}


def job(**changes) -> JobSpec:
    train = TrainConfig(length=1, batch_size=4, optimizer=OptimizerConfig(lr=1e-3))
    data = DataConfig(name="fashion_mnist", root="data", num_classes=10, mean=(0.0,), std=(1.0,), calibration=0)
    settings = {
        "scale": "smoke", "task": "cls", "method": "tap", "rate": 0.5, "variant": "main", "seed": 0, "device": "cpu",
        "data": data, "model": ModelConfig(**SIZES), "pretrain": PretrainConfig(train=train), "start_from": "scratch",
        "controller": ControllerConfig(layers=(1, 2)), "static_split": (40.0, 60.0), "train": train,
        "eval": EvalConfig(batch_size=4),
    }  # fmt: skip
    return JobSpec(**settings | changes)


def build(spec: JobSpec) -> SparseEncoder:
    return build_encoder(spec, TASKS[spec.task])


def equal_states(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_every_weight_is_a_function_of_the_seed():
    torch.manual_seed(1)
    one = build(job())
    torch.manual_seed(2)
    assert equal_states(one, build(job()))
    other = build(job(seed=1))
    assert not equal_states(one.vit, other.vit)
    assert not equal_states(one.reducer, other.reducer)


def test_the_global_generator_is_left_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    build(job())
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("method", available())
def test_all_methods_of_a_seed_share_the_backbone(method):
    model = ModelConfig(**SIZES | {"depth": 12})  # some methods act in fixed blocks
    options = MethodOptions(dtop=DtopOptions(heads=2)).only(method)  # its usual six do not fit the width
    encoder = build(job(method=method, model=model, options=options))
    own, common = encoder.vit.state_dict(), build(job(model=model)).vit.state_dict()
    assert all(torch.equal(own[name], value) for name, value in common.items())
    assert encoder.reducer.name == method


def test_settings_reach_the_method():
    controller = ControllerConfig(
        layers=(2, 3),
        tau_start=3.0,
        tau_end=0.2,
        gumbel=False,
        allocation_bias=0.1,
        recovery_bias=0.2,
        register_std=0.3,
    )
    encoder = build(job(seed=5, rate=0.25, controller=controller))
    given = encoder.reducer.settings
    assert (given.width, given.depth, given.keep_rate, given.layers, given.seed) == (16, 3, 0.25, (2, 3), 5)
    assert (given.tau_start, given.tau_end, given.gumbel) == (3.0, 0.2, False)
    assert (given.allocation_bias, given.recovery_bias, given.register_std) == (0.1, 0.2, 0.3)
    assert (given.task, given.dense, given.class_token, given.split) == ("cls", False, True, (40.0, 60.0))


@pytest.mark.parametrize("method", ["evit", "dynamicvit", "ats"])
def test_a_method_without_a_readout_is_refused_by_dense_tasks(method):
    """Not restored with the full offset, as if it had asked for it."""
    model = ModelConfig(**SIZES, class_token=False, read_blocks=(1, 3))
    with pytest.raises(UserError, match=rf"method: '{method}' is not for det: its file says nothing of what"):
        build(job(task="det", model=model, method=method))


def test_a_readout_that_the_class_does_not_have_is_refused():
    with pytest.raises(ValueError, match="'nothing' says readout='own'"):

        @register(Method(readout="own"))
        class Nothing(Reducer):
            __module__ = "tap.reducers.nothing"


def test_dense_tasks_take_any_size_and_read_grids():
    model = ModelConfig(**SIZES, class_token=False, read_blocks=(1, 3))
    encoder = build(job(task="det", model=model)).eval()
    assert encoder.reducer.settings.dense
    assert not encoder.reducer.settings.class_token
    with torch.no_grad():
        grids = encoder(torch.randn(1, 1, 8, 24)).grids
    assert [grid.shape for grid in grids] == [(1, 12, 16)] * 2


TRUNK = {"class_token": False, "window": 3, "global_blocks": (2,), "rel_pos": True}


def test_windows_and_relative_position_make_a_vitdet_trunk():
    encoder = build(job(task="det", model=ModelConfig(**SIZES, **TRUNK, read_blocks=(3,)))).eval()
    tables = {name: tuple(value.shape) for name, value in encoder.named_parameters() if ".rel_pos_h" in name}
    assert tables == {f"vit.blocks.{i}.attn.rel_pos_h": (length, 8) for i, length in enumerate((5, 7, 5))}
    assert not any(value.any() for name, value in encoder.named_parameters() if ".rel_pos_" in name)
    assert [block.attn.side for block in encoder.vit.blocks] == [3, None, 3]
    plain = build(job(task="det", model=ModelConfig(**SIZES, **TRUNK).plain)).vit.state_dict()
    assert all(torch.equal(value, encoder.vit.state_dict()[name]) for name, value in plain.items())
    with torch.no_grad():
        assert encoder(torch.randn(2, 1, 20, 28)).grids[0].shape == (2, 35, 16)


def test_positions_may_be_kept_for_another_grid():
    vit = build_vit(
        ModelConfig(timm_name="vit_tiny_patch16_224", image_size=320, patch_size=16, position_grid=14, **TRUNK)
    )
    assert vit.pos_embed.shape == (1, 196, 192)
    assert vit.blocks[1].attn.rel_pos_w.shape == (39, 64)
    assert vit.blocks[0].attn.rel_pos_w.shape == (5, 64)


def test_sizes_and_conventions_of_a_plain_vit():
    vit = build_vit(ModelConfig(**SIZES, mlp_ratio=2.0, drop_path=0.2))
    assert vit.norm.eps == 1e-6
    assert vit.blocks[0].mlp.fc1.out_features == 32
    assert vit.blocks[-1].drop_path1.drop_prob == pytest.approx(0.2)
    assert vit.patch_embed.proj.weight.shape == (16, 1, 4, 4)
    assert vit.global_pool == "token"
    assert build_vit(ModelConfig(**SIZES, class_token=False)).cls_token is None


def test_a_timm_name_gives_timm_s_model():
    with torch.device("meta"):
        vit = build_vit(ModelConfig(timm_name="vit_tiny_patch16_224", image_size=64, patch_size=16, channels=4))
    assert type(vit) is VisionTransformer
    assert vit.embed_dim == 192
    assert vit.patch_embed.grid_size == (4, 4)
    assert vit.patch_embed.proj.in_channels == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vit_base_patch16_2224", "does not know 'vit_base_patch16_2224'"),
        ("", "does not know ''"),
        ("resnet18", "'resnet18' is not a plain Vision Transformer"),
        ("swin_tiny_patch4_window7_224", "not a plain Vision Transformer"),
        ("vit_relpos_small_patch16_224", "not a plain Vision Transformer"),
        ("deit_tiny_distilled_patch16_224", "not a plain Vision Transformer"),
        ("vit_tiny_r_s16_p8_224", "not a plain Vision Transformer"),
        ("vit_tiny_patch16_224.nonsense", "Invalid pretrained tag"),
    ],
)
def test_wrong_names(name, message):
    with torch.device("meta"), pytest.raises(UserError, match=message):
        build_vit(ModelConfig(timm_name=name, image_size=64, patch_size=16))


@pytest.mark.parametrize(("name", "patch"), [("vit_small_patch8_224", 8), ("vit_tiny_patch16_224", 16)])
def test_the_image_must_fit_the_patch_of_the_named_model(name, patch):
    """Whatever `patch_size` says, which a named model does not read."""
    with torch.device("meta"):
        fits = build_vit(ModelConfig(timm_name=name, image_size=5 * patch, patch_size=1))
        assert fits.patch_embed.grid_size == (5, 5)
        with pytest.raises(UserError, match=f"multiple of the patch size {patch}"):
            build_vit(ModelConfig(timm_name=name, image_size=5 * patch + 2, patch_size=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep_rate": 0.0}, r"keep_rate: 0.0 is outside \(0, 1\]"),
        ({"keep_rate": 1.5}, "keep_rate: 1.5 is outside"),
        ({"keep_rate": float("nan")}, "keep_rate: nan is outside"),
        ({"layers": (3, 13)}, "block 13 does not exist in a model with 12 blocks"),
        ({"layers": ()}, "increasing block numbers"),
        ({"layers": (0, 3)}, "increasing block numbers"),
        ({"layers": (6, 3)}, "increasing block numbers"),
        ({"layers": (3, 3)}, "increasing block numbers"),
    ],
)
def test_wrong_settings(changes, message):
    with pytest.raises(UserError, match=message):
        ReducerSettings(**{"width": 16, "depth": 12} | changes)


def test_registry():
    assert {"dense", "random", "attn_topk", "static", "tap"} <= set(available())
    assert list(available()) == sorted(available())
    with pytest.raises(UserError, match=r"'tapp' is not known; choose one of .*attn_topk, .*tap"):
        get("tapp")
    with pytest.raises(ValueError, match="two reducers are called 'tap'"):

        @register(Method())
        class Second(Reducer):
            __module__ = "tap.reducers.tap"

    assert get("tap").__name__ == "Tap"
