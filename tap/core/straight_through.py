"""The cardinality-constrained straight-through mask (Eqs. 4-6) with its closed-form gradients (Eqs. S6, S7)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BISECTION_STEPS = 32
BRACKET = 20.0
"""Half width added to the score range, in temperatures."""
SATURATED = 1e-6
"""Floor of A = sum of s(1 - s) wherever the paper divides by it."""


def soft_keep(scores: Tensor, target: Tensor, tau: float, valid: Tensor | None = None) -> Tensor:
    """Soft keep probabilities s_i = sigmoid((z_i - theta) / tau) whose sum is N - Q (Eq. 4, Eqs. S4-S5).

    theta is found by bisection in float32 and differentiated implicitly: gradients reach the scores and the target. An
    image with Q = 0 keeps every patch, with no gradient.

    Args:
        scores: perturbed scores z. ``(B, N)``.
        target: Q, in [0, candidates - 1]. ``(B,)``.
        tau: temperature, above 0.
        valid: marks real candidates; None means all. ``(B, N)`` bool.

    Returns:
        Probabilities, 0 at padding. ``(B, N)`` float32.
    """
    present = torch.ones_like(scores, dtype=torch.bool) if valid is None else valid
    return _SoftKeep.apply(scores.to(torch.float32), target.to(torch.float32), tau, present)


def straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    """stopgrad(hard - soft) + soft: exactly the hard mask forward, the identity to ``soft`` backward (Eq. 5, Eq. S8).

    Args:
        hard: keep decisions. ``(B, N)`` bool.
        soft: soft keep probabilities. ``(B, N)`` float.

    Returns:
        The mask m, in the type of ``soft``. ``(B, N)``.
    """
    return _StraightThrough.apply(hard, soft)


def gather_retained(tokens: Tensor, mask: Tensor, rows: Tensor) -> Tensor:
    """Gather of the rows m_i x_i that stay (Eq. 6), for tokens of one image or of a packed or flattened batch.

    The multiplication follows the gather: the same values and gradients on fewer rows.

    Args:
        tokens: patch features. ``(T, d)``.
        mask: straight-through mask. ``(T,)`` float32.
        rows: retained rows, in original patch order. ``(S,)`` int64.

    Returns:
        Retained features in the type of ``tokens``. ``(S, d)``.
    """
    kept = tokens.index_select(0, rows)
    return (kept * mask.index_select(0, rows).unsqueeze(1)).to(tokens.dtype)


class _SoftKeep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, target: Tensor, tau: float, valid: Tensor) -> Tensor:
        # From the row's maximum, which changes nothing but the digits left: at 1e4 float32 has none for the decimals.
        highest = scores.masked_fill(~valid, float("-inf")).amax(dim=1, keepdim=True)
        scaled = (scores - highest) / tau
        logit = scaled - _threshold(scaled, target, valid).unsqueeze(1)
        solved = valid & (target > 0).unsqueeze(1)
        soft = torch.sigmoid(logit)
        # s(1 - s) as a product of two sigmoids: 1 - s would lose all its digits where s is near 1.
        ctx.save_for_backward((soft * torch.sigmoid(-logit)).masked_fill(~solved, 0.0))
        ctx.tau = tau
        return torch.where(solved, soft, valid.to(soft.dtype))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, Tensor, None, None]:
        (a,) = ctx.saved_tensors  # s(1 - s); 0 at padding and in rows with Q = 0
        weighted = (grads[0] * a).sum(dim=1, keepdim=True) / a.sum(dim=1, keepdim=True).clamp_min(SATURATED)
        # Eq. S6, multiplied by the incoming gradient: a_j / tau * (g_j - sum_i g_i a_i / A).
        grad_scores = a * (grads[0] - weighted) / ctx.tau
        # Eq. S7: -sum_i g_i a_i / A.
        return grad_scores, -weighted.squeeze(1), None, None


def _threshold(scaled: Tensor, target: Tensor, valid: Tensor) -> Tensor:
    """theta / tau by bisection over [min z / tau - 20, max z / tau + 20] of the candidates (Eq. S5)."""
    infinity = float("inf")
    low = scaled.masked_fill(~valid, infinity).amin(dim=1) - BRACKET
    high = scaled.masked_fill(~valid, -infinity).amax(dim=1) + BRACKET
    present = scaled.masked_fill(~valid, infinity)
    for _ in range(BISECTION_STEPS):
        middle = 0.5 * (low + high)
        below = middle.unsqueeze(1) - present
        # Removed mass = patches below theta, less what each of them keeps, plus what those above lose. Only these small
        # terms are sigmoids: next to 1 float32 could not tell theta from any other point of a wide gap between scores.
        crossing = torch.copysign(torch.sigmoid(-below.abs()), below).sum(dim=1)
        too_high = (below >= 0).sum(dim=1) - target > crossing
        low = torch.where(too_high, low, middle)
        high = torch.where(too_high, middle, high)
    return 0.5 * (low + high)


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hard: Tensor, soft: Tensor) -> Tensor:
        return hard.to(soft.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, Tensor]:
        return None, grads[0]
