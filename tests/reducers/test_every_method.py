"""What must hold for every method of the registry; a new one joins by being registered."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_models import common_recovery, tiny_encoder, tiny_images
from torch import Tensor

from tap.core.budget import keep_count
from tap.encoder.sparse_vit import SparseEncoder
from tap.reducers.registry import available, get

LAYERS = (2, 3, 4)
DEPTH = 4

CASES: dict[str, dict[str, Any]] = {}
"""Settings of `ReducerSettings` that a method needs beyond the defaults, by name."""

every_method = pytest.mark.parametrize("method", available())
pruning = pytest.mark.parametrize("method", [name for name in available() if name != "dense"])
exact = pytest.mark.parametrize("method", [name for name in available() if get(name).fixed_count and name != "dense"])


def make(method: str, rate: float = 0.4, dense: bool = False, **options: Any) -> SparseEncoder:
    """An encoder of four blocks, pruned before 2, 3 and 4.

    With seed 9 and 4 x 5 patches TAP leaves different counts in three images after both of the first two.
    """
    reads = (1, 2, 3, 4) if dense else ()
    layers = options.pop("layers", LAYERS)
    options.setdefault("seed", 9)
    return tiny_encoder(method, rate, layers, reads, common_recovery(method), CASES.get(method), **options)


def ids_of(images: Tensor) -> Tensor:
    return torch.arange(len(images)) + 7


@every_method
@pytest.mark.parametrize("options", [{}, {"class_token": False}, {"reg_tokens": 2}], ids=["cls", "no cls", "registers"])
def test_keep_rate_1_is_the_dense_timm_model(method, options):
    encoder = make(method, 1.0, grid=(3, 5), **options)
    images = tiny_images(encoder)
    with torch.no_grad():
        expected = encoder.vit.forward_head(encoder.vit.forward_features(images), pre_logits=True)
        torch.testing.assert_close(encoder.pool(encoder(images)), expected, rtol=1e-6, atol=1e-6)


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
    encoder = make(method, percent / 100, grid=grid, layers=layers, class_token=class_token, seed=percent)
    rows: list[int] = []
    encoder.vit.blocks[-1].mlp.register_forward_pre_hook(
        lambda _module, inputs: rows.append(inputs[0].shape[:-1].numel())
    )
    images = tiny_images(encoder, batch)
    with torch.no_grad():
        output = encoder(images, ids_of(images), return_trace=True)
    final = keep_count(grid[0] * grid[1], percent / 100)
    assert output.trace.final_counts.tolist() == [final] * batch
    assert rows == [batch * (final + output.tokens.layout.prefix)]


@pruning
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 9])
def test_results_do_not_depend_on_batch_mates(method, dense, seed):
    encoder = make(method, dense=dense, grid=(4, 5), seed=seed)
    images = tiny_images(encoder, 5, seed=seed)
    ids = ids_of(images)
    orders = [[0], [3], [4, 1], [2, 0, 4, 1, 3]]
    with torch.no_grad():
        together = encoder(images, ids, return_trace=True)
        pooled = encoder.pool(together)
        if not encoder.reducer.fixed_count or method == "tap":
            assert len(set(together.trace.removed[2].tolist())) > 1, "the counts should differ"
        for order in orders:
            some = encoder(images[order], ids[order], return_trace=True)
            torch.testing.assert_close(encoder.pool(some), pooled[order], rtol=1e-5, atol=1e-5)
            assert torch.equal(some.trace.removals, together.trace.removals[order])
            for layer, kept in some.trace.kept.items():
                assert torch.equal(kept, together.trace.kept[layer][order])
            for one, other in zip(some.grids, together.grids, strict=True):
                torch.testing.assert_close(one, other[order], rtol=1e-5, atol=1e-5)


@pruning
@pytest.mark.parametrize("dense", [False, True])
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
    if encoder.reducer.fixed_count:
        assert output.trace.final_counts.tolist() == [8] * 3


@every_method
@pytest.mark.parametrize("dense", [False, True])
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


@pruning
@pytest.mark.parametrize("dense", [False, True])
def test_training_step(method, dense):
    """Finite gradients everywhere, and every weight of the method learns where its output is read."""
    encoder = make(method, dense=dense, grid=(4, 5)).train()
    images = tiny_images(encoder)
    encoder.reducer.set_progress(0.3)
    output = encoder(images, ids_of(images), return_trace=True)
    loss = encoder.pool(output).square().mean() + sum(grid.square().mean() for grid in output.grids)
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in encoder.named_parameters()}
    assert all(gradient.isfinite().all() for gradient in gradients.values() if gradient is not None)
    assert gradients["vit.patch_embed.proj.weight"].any()
    for name, parameter in encoder.reducer.named_parameters():
        if dense or not name.startswith("controller.recovery"):
            assert parameter.grad is not None, name
            assert parameter.grad.any(), name
    if encoder.reducer.fixed_count:
        assert output.trace.final_counts.tolist() == [8] * 3


@every_method
@pytest.mark.parametrize("class_token", [True, False])
def test_one_patch_and_one_kept_patch(method, class_token):
    """The smallest image, and the smallest rate."""
    for grid in ((1, 1), (2, 3)):
        encoder = make(method, 0.01, dense=True, grid=grid, class_token=class_token)
        images = tiny_images(encoder, 2)
        with torch.no_grad():
            output = encoder(images, ids_of(images), return_trace=True)
        patches = grid[0] * grid[1]
        assert output.grids[-1].shape == (2, patches, 16)
        assert output.trace.final_counts.tolist() == [patches if method == "dense" else 1] * 2


@every_method
def test_names_and_parameters(method):
    reducer = make(method).reducer
    assert reducer.name == method
    assert reducer.title
    assert reducer.added_parameters() == sum(parameter.numel() for parameter in reducer.parameters())
