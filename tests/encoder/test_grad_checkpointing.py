"""Gradient checkpointing on packed rows: the same bits, the same decisions, less kept for the backward pass."""

from __future__ import annotations

import pytest
import torch
from tiny_models import LAYERED, common_recovery, tiny_encoder, tiny_images
from torch import Tensor

METHODS = (*LAYERED, "cropr", "dtop", "tome", "svit")


def gradients(method: str, enable: bool, trunk: dict) -> tuple[list[Tensor], int, list[Tensor]]:
    """Gradients of all parameters, bytes kept between the passes, and the patches that were kept."""
    encoder = tiny_encoder(
        method, 0.5, (2, 3), (3, 4), common_recovery(method), grid=(6, 6), drop_path_rate=0.2, **trunk
    )
    encoder.train()
    for block in encoder.vit.blocks:
        block.grad_checkpointing = enable
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = encoder(tiny_images(encoder, 4), return_trace=True)
    sum(grid.square().mean() for grid in output.grids).backward()
    grads = [p.grad for p in encoder.parameters() if p.grad is not None]
    return grads, sum(kept.values()), list(output.trace.kept.values())


WINDOWS = {"window": 3, "global_blocks": (2, 3), "padded": True}
CASES = [(method, {}) for method in METHODS] + [(method, WINDOWS) for method in ("cropr", "random", "svit", "tap")]


@pytest.mark.parametrize(("method", "trunk"), CASES)
def test_the_same_bits_with_less_memory(method, trunk):
    expected, more, kept = gradients(method, False, trunk)
    found, less, again = gradients(method, True, trunk)
    assert len(found) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(again, kept, strict=True))
    assert less < 0.8 * more


def test_nothing_is_recomputed_without_gradients():
    encoder = tiny_encoder("tap", 0.5)
    calls = []
    for block in encoder.vit.blocks:
        block.grad_checkpointing = True
        block.mlp.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        encoder(tiny_images(encoder))
    assert len(calls) == 4
