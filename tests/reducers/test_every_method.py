"""What must hold for every method of the registry; a new one joins by being registered."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tiny_models import common_recovery, tiny_encoder, tiny_images
from torch import Tensor

from tap.config.methods import METHODS
from tap.config.model import ModelConfig
from tap.config.options.algm import AlgmOptions
from tap.config.options.ats import AtsOptions
from tap.core.budget import keep_count
from tap.encoder.sparse_vit import SparseEncoder
from tap.errors import UserError
from tap.reducers.base import ReducerSettings, TeacherOutput, TrainingPass
from tap.reducers.build import build_vit
from tap.reducers.registry import available, get

LAYERS = (2, 3, 4)
DEPTH = 4


@dataclass(frozen=True)
class Case:
    """What a method needs in these tests beyond the defaults, and where it is not like the others.

    Attributes:
        options: its settings for a model of four blocks.
        class_token: whether it refuses models without one.
        extra: tokens that reach the last block beside K patches, where anything is removed.
        differs_at: block after which the counts of images differ, for methods whose counts do.
        progress: share of the training at which all its weights learn.
        marks: whether it only marks removed patches at that time.
        rejoins: whether removed patches are back in the last block.
    """

    options: Any = None
    class_token: bool = False
    extra: int = 0
    differs_at: int = 2
    progress: float = 0.3
    marks: bool = False
    rejoins: bool = False


CASES = {
    "evit": Case(class_token=True, extra=1),
    "ats": Case(AtsOptions(first_block=2, last_block=3), class_token=True),
    "cropr": Case(rejoins=True),
    "dynamicvit": Case(marks=True),
    "svit": Case(differs_at=3),
    "diffrate": Case(class_token=True, progress=0.0, marks=True),
    "algm": Case(AlgmOptions(local_block=2, global_blocks=(3, 4), threshold=0.6)),
}

every_method = pytest.mark.parametrize("method", available())
pruning = pytest.mark.parametrize("method", [name for name in available() if name != "dense"])
exact = pytest.mark.parametrize(
    "method", [name for name in available() if not get(name).method.calibrated and name != "dense"]
)
ways = pytest.mark.parametrize(
    ("method", "dense"),
    [(name, False) for name in available()]
    + [(name, True) for name in available() if METHODS[name].tasks != ("cls",)]
    + [(name, "trunk") for name in available() if "det" in METHODS[name].tasks],
)
"""Every method without and with a dense head, and on a ViTDet trunk, where its tasks have one."""


def case_of(method: str) -> Case:
    return CASES.get(method, Case())


def final_tokens(method: str, patches: int, rate: float) -> int:
    """What reaches the last block under a method with a fixed count."""
    final = keep_count(patches, rate)
    return final + case_of(method).extra * (final < patches)


def make(method: str, rate: float = 0.4, dense: bool | str = False, **options: Any) -> SparseEncoder:
    """An encoder of four blocks, pruned before 2, 3 and 4.

    With seed 9 and 4 x 5 patches TAP leaves different counts in three images after both of the first two.

    Args:
        method, rate: what prunes, and how much it keeps.
        dense: whether grids are read; `trunk` for a ViTDet trunk of seven blocks, pruned before 2, 4 and 6, with
            windows in between.
        options: those of `tiny_encoder`.
    """
    reads = (1, 2, 3, 4) if dense else ()
    layers = options.pop("layers", LAYERS)
    if dense == "trunk":
        layers, reads = (2, 4, 6), (1, 4, 7)
        options = {"depth": 7, "window": 3, "global_blocks": layers, "class_token": False} | options
    options.setdefault("seed", 9)
    given = {"task": "det" if dense == "trunk" else "seg" if dense else "cls"}
    if case_of(method).options is not None:
        given["options"] = case_of(method).options
    return tiny_encoder(method, rate, layers, reads, common_recovery(method), given, **options)


def ids_of(images: Tensor) -> Tensor:
    return torch.arange(len(images)) + 7


@every_method
@pytest.mark.parametrize("options", [{}, {"class_token": False}, {"reg_tokens": 2}], ids=["cls", "no cls", "registers"])
def test_keep_rate_1_is_the_dense_timm_model(method, options):
    if case_of(method).class_token and not options.get("class_token", True):
        with pytest.raises(UserError, match="use a model with a class token"):
            make(method, 1.0, grid=(3, 5), **options)
        return
    encoder = make(method, 1.0, grid=(3, 5), **options)
    images = tiny_images(encoder)
    with torch.no_grad():
        expected = encoder.vit.forward_head(encoder.vit.forward_features(images), pre_logits=True)
        torch.testing.assert_close(encoder.pool(encoder(images)), expected, rtol=1e-6, atol=1e-6)


@ways
@pytest.mark.parametrize("rate", [1.0, 0.98])
def test_nothing_to_remove_is_the_dense_encoder(method, dense, rate):
    """Grids of every read point too; 98 % of 20 patches are 20."""
    encoder, plain = (make(name, rate, dense, grid=(4, 5)) for name in (method, "dense"))
    images = tiny_images(encoder)
    with torch.no_grad():
        found, expected = encoder(images, ids_of(images)), plain(images, ids_of(images))
        torch.testing.assert_close(encoder.pool(found), plain.pool(expected), rtol=1e-6, atol=1e-6)
    for one, other in zip(found.grids, expected.grids, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", [name for name in available() if "det" in METHODS[name].tasks])
@pytest.mark.parametrize("padded", [False, True])
def test_keep_rate_1_is_the_dense_trunk_to_the_bit(method, padded):
    encoder, dense = (make(name, 1.0, "trunk", grid=(4, 5), padded=padded) for name in (method, "dense"))
    images = tiny_images(encoder)
    with torch.no_grad():
        assert all(map(torch.equal, encoder(images).grids, dense(images).grids))


@exact
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    grid=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    percent=st.integers(1, 100),
    batch=st.integers(1, 4),
    layers=st.sets(st.integers(1, DEPTH), min_size=1).map(lambda chosen: tuple(sorted(chosen))),
    class_token=st.booleans(),
)
def test_exactly_k_patches_reach_the_last_block(method, grid, percent, batch, layers, class_token):
    """Counted at the last MLP, by rows, and in the trace."""
    patches = grid[0] * grid[1]
    assume(class_token or not case_of(method).class_token)
    assume(method != "tome" or keep_count(patches, percent / 100) * 2 ** (DEPTH - 1) >= patches)  # it halves at most
    encoder = make(method, percent / 100, grid=grid, layers=layers, class_token=class_token, seed=percent)
    rows: list[int] = []
    encoder.vit.blocks[-1].mlp.register_forward_pre_hook(
        lambda _module, inputs: rows.append(inputs[0].shape[:-1].numel())
    )
    images = tiny_images(encoder, batch)
    with torch.no_grad():
        output = encoder(images, ids_of(images), return_trace=True)
    final = final_tokens(method, patches, percent / 100)
    assert output.trace.final_counts.tolist() == [final] * batch
    assert rows == [batch * ((patches if case_of(method).rejoins else final) + output.tokens.layout.prefix)]


@ways
@pytest.mark.parametrize("seed", [1, 3, 9])
def test_results_do_not_depend_on_batch_mates(method, dense, seed):
    encoder = make(method, dense=dense, grid=(4, 5), seed=seed)
    if dense == "trunk":
        encoder = encoder.double()  # seven blocks with sharp attention amplify the rounding of float32
    images = tiny_images(encoder, 5, seed=seed)
    ids = ids_of(images)
    orders = [[0], [3], [4, 1], [2, 0, 4, 1, 3]]
    with torch.no_grad():
        together = encoder(images, ids, return_trace=True)
        pooled = encoder.pool(together)
        if encoder.reducer.method.calibrated or method == "tap":
            # On the trunk the register has met no patch before block 2's attention.
            differs_at = 4 if dense == "trunk" and method == "tap" else case_of(method).differs_at
            differing = together.trace.removed[differs_at].tolist()
            assert len(set(differing)) > 1, "the counts should differ"
        for order in orders:
            some = encoder(images[order], ids[order], return_trace=True)
            torch.testing.assert_close(encoder.pool(some), pooled[order], rtol=1e-5, atol=1e-5)
            assert torch.equal(some.trace.removals, together.trace.removals[order])
            for layer, kept in some.trace.kept.items():
                assert torch.equal(kept, together.trace.kept[layer][order])
            for one, other in zip(some.grids, together.grids, strict=True):
                torch.testing.assert_close(one, other[order], rtol=1e-5, atol=1e-5)


@ways
@pytest.mark.parametrize("precision", ["autocast", "bfloat16", "float64"])
def test_precisions(method, dense, precision):
    encoder = make(method, dense=dense, grid=(4, 5))
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    encoder = encoder.to(dtype)
    images = tiny_images(encoder)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
        output = encoder(images, ids_of(images), return_trace=True)
        pooled = encoder.pool(output)
    assert pooled.isfinite().all()
    assert output.tokens.x.dtype == dtype
    for grid in output.grids:
        assert grid.dtype == dtype
        assert grid.isfinite().all()
    if not encoder.reducer.method.calibrated and method != "dense":
        assert output.trace.final_counts.tolist() == [final_tokens(method, 20, 0.4)] * 3


@ways
def test_evaluation_is_deterministic(method, dense):
    encoder = make(method, dense=dense, grid=(4, 5))
    images = tiny_images(encoder)
    with torch.inference_mode():
        results = []
        for seed in (0, 1):  # of torch's generator, which evaluation must not touch
            torch.manual_seed(seed)
            output = encoder(images, ids_of(images))
            results.append((encoder.pool(output), *output.grids))
    assert all(map(torch.equal, *results))


@every_method
def test_state_dict_round_trip(method):
    one, other = make(method, seed=0), make(method, seed=5)
    other.load_state_dict(one.state_dict())
    images = tiny_images(one)
    with torch.no_grad():
        assert torch.equal(one(images).tokens.x, other(images).tokens.x)


@ways
def test_training_step(method, dense):
    """Finite gradients everywhere, and every weight of the method learns where its output is read."""
    encoder = make(method, dense=dense, grid=(4, 5)).train()
    images = tiny_images(encoder)
    encoder.reducer.set_progress(case_of(method).progress)
    output = encoder(images, ids_of(images), return_trace=True)
    pooled = encoder.pool(output)
    loss = pooled.square().mean() + sum(grid.square().mean() for grid in output.grids)
    given = TrainingPass(
        encoder,
        output,
        pooled[:, :3],
        torch.tensor([0, 2, 1]),
        torch.randint(3, (3, 20)),
        TeacherOutput(torch.randn(3, 3), torch.randn(3, 20, 16)),
    )
    (loss + sum(encoder.reducer.losses(given).values())).backward()
    gradients = {name: parameter.grad for name, parameter in encoder.named_parameters()}
    assert all(gradient.isfinite().all() for gradient in gradients.values() if gradient is not None)
    assert gradients["vit.patch_embed.proj.weight"].any()
    for name, parameter in encoder.reducer.named_parameters():
        if dense or not name.startswith("controller.recovery"):
            assert parameter.grad is not None, name
            assert parameter.grad.any(), name
    if not encoder.reducer.method.calibrated and method != "dense":
        left = 20 if case_of(method).marks else final_tokens(method, 20, 0.4)
        assert output.trace.final_counts.tolist() == [left] * 3


@every_method
@pytest.mark.parametrize("class_token", [True, False])
def test_one_patch_and_one_kept_patch(method, class_token):
    """The smallest image, and the smallest rate."""
    refused = case_of(method).class_token and not class_token
    for grid in ((1, 1), (2, 3)):
        with pytest.raises(UserError, match="class token") if refused else nullcontext():
            encoder = make(method, 0.01, dense=METHODS[method].tasks != ("cls",), grid=grid, class_token=class_token)
        if refused:
            return
        images = tiny_images(encoder, 2)
        with torch.no_grad():
            output = encoder(images, ids_of(images), return_trace=True)
        patches = grid[0] * grid[1]
        assert all(grid.shape == (2, patches, 16) for grid in output.grids)
        if not encoder.reducer.method.calibrated:
            left = patches if method == "dense" else final_tokens(method, patches, 0.01)
            assert output.trace.final_counts.tolist() == [left] * 2
        assert output.trace.final_counts.min() >= 1


@every_method
def test_names_and_parameters(method):
    reducer = make(method).reducer
    assert reducer.name == method
    assert METHODS[method].row.title
    every = sum(parameter.numel() for parameter in reducer.parameters())
    assert reducer.added_parameters(training=True) == every
    assert (reducer.added_parameters() < every) == bool(reducer.training_only)


@pytest.mark.slow
@every_method
def test_a_public_vit_b_runs(method):
    """timm's MAE ViT-B at 224, by name, with random weights."""
    model = ModelConfig(
        timm_name="vit_base_patch16_224.mae",
        image_size=224,
        patch_size=16,
        class_token=METHODS[method].tasks != ("det",),
    )
    vit = build_vit(model)
    given = ReducerSettings(
        768, 12, class_token=model.class_token, dense=METHODS[method].tasks != ("cls",), num_classes=10, patches=196
    )
    encoder = SparseEncoder(vit, get(method)(given), (12,) if given.dense else (), common_recovery(method)).eval()
    images = tiny_images(encoder, 1)
    with torch.inference_mode():
        output = encoder(images, ids_of(images))
        pooled = encoder.pool(output)
    assert pooled.shape == (1, 768)
    assert pooled.isfinite().all()
    assert all(grid.shape == (1, 196, 768) and grid.isfinite().all() for grid in output.grids)
    if not encoder.reducer.method.calibrated:
        assert output.final_counts == (196 if method == "dense" else final_tokens(method, 196, 0.5),)
