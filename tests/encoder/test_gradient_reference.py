"""Gradients of the packed training pass against autograd through the float64 loops (Eqs. 4-6, S6-S8; no Gumbel noise).

The reference differentiates the threshold by a Newton step and sends the mask through every sublayer of the block,
LayerNorm included; the encoder has the closed form and lets the mask into the residual stream only.
"""

from __future__ import annotations

import pytest
import torch
from reference import Rules, forward
from tiny_models import tiny_encoder, tiny_images

TEMPERATURE = 0.7


def gradients(reads: tuple[int, ...], scale: float | None, seed: int, rate: float = 0.4, **backbone):
    """Gradients by parameter name, of the encoder and of the reference, for one random linear loss."""
    encoder = tiny_encoder(
        "tap", rate, (1, 2, 4), reads, grid=(3, 4), seed=seed, settings={"gumbel": False}, **backbone
    ).double()
    if scale is not None:
        encoder.recovery = type(encoder.recovery)(scale=scale)
    encoder.reducer.temperature = TEMPERATURE
    encoder.train()
    images = tiny_images(encoder, 2, seed=seed)
    rules = Rules(rate, (1, 2, 4), reads, scale, temperature=TEMPERATURE)
    generator = torch.Generator().manual_seed(seed)
    pooled = torch.randn(2, 16, generator=generator, dtype=torch.float64)
    grids = [torch.randn(2, 12, 16, generator=generator, dtype=torch.float64) for _ in reads]

    output = encoder(images)
    loss = (encoder.pool(output) * pooled).sum() + sum((g * w).sum() for g, w in zip(output.grids, grids, strict=True))
    found = collect(encoder, loss)

    expected = [forward(encoder.vit, encoder.reducer.controller, "cls", image, rules) for image in images]
    assert min(e.margin for e in expected) > 1e-5
    assert len({tuple(e.removals.values()) for e in expected}) == 2, "the images should lose different counts"
    wanted_loss = sum((e.pooled * pooled[b]).sum() for b, e in enumerate(expected))
    for read, weight in enumerate(grids):
        wanted_loss = wanted_loss + sum((e.grids[read] * weight[b]).sum() for b, e in enumerate(expected))
    torch.testing.assert_close(loss, wanted_loss, rtol=1e-6, atol=1e-6)
    return found, collect(encoder, wanted_loss)


def collect(encoder, loss):
    named = dict(encoder.named_parameters())
    return dict(zip(named, torch.autograd.grad(loss, named.values(), allow_unused=True), strict=True))


def compare(found, wanted, tolerance: float) -> None:
    # Some gradients are zero in exact arithmetic (a bias of all keys), hence a floor of the size of the others.
    largest = max(gradient.abs().max().item() for gradient in wanted.values() if gradient is not None)
    for name, gradient in found.items():
        if wanted[name] is None:
            assert gradient is None or not gradient.any(), name
        else:
            assert gradient is not None, name
            size = max(wanted[name].abs().max().item(), 1e-3 * largest)
            difference = (gradient - wanted[name]).abs().max().item()
            assert difference <= tolerance * size, f"{name}: {difference} of {size}"


@pytest.mark.parametrize("reads", [(), (2, 4)])
@pytest.mark.parametrize(
    ("seed", "backbone"),
    [(3, {}), (25, {"qk_norm": True}), (7, {"class_token": False})],
    ids=["plain", "qk_norm", "no_class_token"],
)
def test_gradients_of_every_weight(seed, backbone, reads):
    found, wanted = gradients(reads, None, seed, **backbone)
    compare(found, wanted, 5e-5)
    of_controller = {name: g for name, g in found.items() if name.startswith("reducer.")}
    trained = {name for name, g in of_controller.items() if g is not None and g.any()}
    recovery = {"reducer.controller.recovery.weight", "reducer.controller.recovery.bias"}
    assert set(of_controller) - trained == (set() if reads else recovery)


def test_a_fixed_endpoint_leaves_the_recovery_readout_alone():
    found, wanted = gradients((2, 4), 0.5, 3)
    compare(found, wanted, 5e-5)
    assert found["reducer.controller.recovery.weight"] is None


def test_the_capacity_bound_stops_the_gradient_of_the_share():
    """A proposal at the capacity has the zero subgradient; the scores still learn."""
    encoder = tiny_encoder("tap", 0.01, (1, 2), grid=(2, 3), settings={"gumbel": False}).double().train()
    controller = encoder.reducer.controller
    with torch.no_grad():
        controller.allocation.weight.zero_()
        controller.allocation.bias.fill_(80.0)  # a share of 1 in float32: all 5 of 5
    output = encoder(tiny_images(encoder, 2), return_trace=True)
    assert output.trace.removed[1].tolist() == [5, 5]
    encoder.pool(output).square().sum().backward()
    assert not controller.allocation.bias.grad.any()
    assert not controller.allocation.weight.grad.any()


def test_no_gradient_without_a_surrogate_for_what_is_removed_by_nobody():
    """At keep rate 1 the register is not part of the computation."""
    encoder = tiny_encoder("tap", 1.0).train()
    encoder.pool(encoder(tiny_images(encoder))).sum().backward()
    assert all(parameter.grad is None for parameter in encoder.reducer.parameters())
