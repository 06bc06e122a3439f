"""Random numbers: Gumbel perturbations of training scores, and draws that depend on names instead of on a state."""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15
_SEED_STRIDE = 0xD1342543DE82EF95


def gumbel_like(scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Independent standard Gumbel samples gamma for z = f + gamma (Eq. 4).

    Args:
        scores: gives shape and device.
        generator: source on the device of ``scores``; None takes torch's own.

    Returns:
        Finite samples of the shape of ``scores``, float32.
    """
    waiting = torch.empty(scores.shape, dtype=torch.float32, device=scores.device).exponential_(generator=generator)
    return -torch.log(waiting.clamp_min(torch.finfo(torch.float32).tiny))


def stateless_uniform(seed: int, sample_ids: Tensor, layer: int, n: int) -> Tensor:
    """Uniform numbers that are a pure function of (seed, sample id, layer, position): the same in any batch and order.

    A counter-based generator: splitmix64's finaliser absorbs one name after the other, in wrapping int64 arithmetic.

    Args:
        seed: any integer; its lowest 64 bits count.
        sample_ids: identity of every image in its data set. ``(B,)`` int64.
        layer: pruning layer.
        n: numbers per image; fewer of them are a prefix of more.

    Returns:
        Values in [0, 1) with 53 random bits. ``(B, n)`` float64.
    """
    state = _mix(sample_ids.to(torch.int64) + _signed(seed * _SEED_STRIDE))
    state = _mix(state + _signed((layer + 1) * _GOLDEN))
    counter = torch.arange(1, n + 1, device=sample_ids.device) * _signed(_GOLDEN)
    bits = _shift_right(_mix(state.unsqueeze(1) + counter), 11)
    return bits.to(torch.float64) * 2.0**-53


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift_right(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift_right(x, 31)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift: int64 shifts its sign in, so the upper bits are masked off."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """The int64 that has the lowest 64 bits of ``value``."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
