"""What only a GPU can show: the variable-length kernel, and waiting for the device."""

from __future__ import annotations

import warnings

import pytest
import torch
from tiny_models import LAYERED, common_recovery, tiny_encoder, tiny_images

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
LAYERS = (2, 3, 4)
SIZES = {"grid": (8, 8), "width": 64, "heads": 2, "seed": 8}  # heads of 32 suit variable-length kernels
TRUNK = {"depth": 5, "window": 3, "global_blocks": LAYERS}
"""Windows before and after the pruning blocks; 8 patches leave 2 of the last window inside the grid."""


@pytest.mark.parametrize(
    ("method", "dense"),
    [(name, dense) for name in ("dense", *LAYERED, "cropr", "dtop", "evovit", "svit") for dense in (False, True)]
    + [(name, "trunk") for name in ("dense", "random", "attn_topk", "static", "tap")],
)
@pytest.mark.parametrize("training", [False, True])
def test_at_most_one_synchronisation_per_pruning_block(method, dense, training):
    trunk = TRUNK if dense == "trunk" else {}
    encoder = tiny_encoder(method, 0.4, LAYERS, (1, 2, 4) if dense else (), common_recovery(method), **SIZES, **trunk)
    encoder = encoder.cuda()
    encoder.train(training)
    images, ids = tiny_images(encoder, 4).cuda(), torch.arange(4, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        encoder(images, ids)  # kernels are chosen and memory is pinned in the first pass
        torch.cuda.synchronize()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                encoder(images, ids)
            finally:
                torch.cuda.set_sync_debug_mode("default")
    waits = [str(warning.message) for warning in caught if "synchronizing" in str(warning.message)]
    assert len(waits) <= len(LAYERS), waits


@pytest.mark.parametrize(("trunk", "differs_at"), [({}, 2), (TRUNK, 3), (TRUNK | {"padded": True}, 3)])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_gpu_agrees_with_the_cpu(precision, trunk, differs_at):
    """Batch order and one kernel for all lengths there, order by length and one call per length here."""
    encoder = tiny_encoder("tap", 0.4, LAYERS, (2, 4), **SIZES, **trunk)
    images, ids = tiny_images(encoder, 4), torch.arange(4)
    with torch.no_grad():
        here = encoder(images, ids, return_trace=True)
        assert len(set(here.trace.removed[differs_at].tolist())) > 1
        encoder = encoder.cuda()
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bfloat16"):
            there = encoder(images.cuda(), ids.cuda(), return_trace=True)
    assert there.trace.final_counts.tolist() == here.trace.final_counts.tolist()
    if precision == "float32":
        assert torch.equal(there.trace.removals.cpu(), here.trace.removals)
        assert all(torch.equal(there.trace.kept[layer].cpu(), here.trace.kept[layer]) for layer in LAYERS)
        for one, other in zip(there.grids, here.grids, strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=1e-3, atol=1e-3)
    else:
        shared = (there.trace.kept[2].cpu() & here.trace.kept[2]).sum() / here.trace.kept[2].sum()
        assert shared > 0.9, "16-bit rounding moves few patches"


@pytest.mark.parametrize("trunk", [{}, TRUNK])
def test_packed_training_has_gradients(trunk):
    encoder = tiny_encoder("tap", 0.4, LAYERS, (4,), **SIZES, **trunk).cuda().train()
    with torch.autocast("cuda", torch.bfloat16):
        output = encoder(tiny_images(encoder, 4).cuda())
        loss = output.grids[0].float().square().mean() + encoder.pool(output).float().square().mean()
    loss.backward()
    assert all(parameter.grad is not None for parameter in encoder.reducer.parameters())
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters() if parameter.grad is not None)
