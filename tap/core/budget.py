"""How many patches each pruning layer removes: keep count, exact integer allocation, continuous target (Alg. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import torch
from torch import Tensor

from tap.errors import UserError


@dataclass(frozen=True)
class Allocation:
    """What one pruning layer decides for every image.

    Attributes:
        removals: R^(l), patches to remove now. ``(B,)`` int64.
        target: Q^(l), the feasible continuous target; carries the allocation readout's gradient. ``(B,)`` float32.
        remaining: B^(l+), the budget left for later layers, without gradient. ``(B,)`` int64.
    """

    removals: Tensor
    target: Tensor
    remaining: Tensor


def keep_count(patches: int, rate: float) -> int:
    """K = max(1, round(rate * patches)), the patches that reach the last block (Alg. 1, first line).

    Halves round up, and they are the halves of the decimal that a person typed: ``0.35`` of 90 is 31.5 and gives 32,
    although the nearest binary fraction lies below 0.35.

    Raises:
        UserError: the rate is outside (0, 1], or there is no patch to keep.
    """
    if not 0.0 < rate <= 1.0:
        raise UserError(f"keep rate: {rate} is outside (0, 1]; give the share of patches to keep, such as 0.5")
    if patches < 1:
        raise UserError(f"patches: {patches} patches cannot be pruned; the image must hold at least one patch")
    return max(1, floor(Fraction(repr(float(rate))) * patches + Fraction(1, 2)))


def removal_capacity(budget: Tensor, patches: Tensor) -> Tensor:
    """C^(l) = min(B^(l), N_l - 1): what a layer may remove without emptying the image (Eq. S2).

    Args:
        budget: unspent removals B^(l). ``(B,)`` int64.
        patches: patches N_l entering the layer. ``(B,)`` int64.
    """
    return torch.minimum(budget, patches - 1)


def integer_removal(proposal: Tensor, capacity: Tensor) -> Tensor:
    """R^(l) = min(round(proposal), C^(l)), halves rounding up (Alg. 1, Eq. S2).

    A NaN proposal removes nothing, so that the last layer still meets the budget.

    Args:
        proposal: continuous removals. ``(B,)`` float.
        capacity: C^(l). ``(B,)`` int64.
    """
    bounded = torch.minimum(proposal.detach(), capacity.to(proposal.dtype))
    whole = bounded.floor()
    # floor(x + 1/2) would round 0.49999997 up in float32: the sum is not representable, the difference below is.
    up = bounded - whole >= 0.5
    return (whole.to(torch.int64) + up.to(torch.int64)).clamp_min(0)


def soft_target(proposal: Tensor, capacity: Tensor) -> Tensor:
    """Q^(l) = min(proposal, C^(l)) with gradient only below the capacity (Sec. Cardinality-constrained training).

    The minimum of torch would split the gradient at equality; the paper takes the zero subgradient there.

    Args:
        proposal: continuous removals. ``(B,)`` float.
        capacity: C^(l). ``(B,)`` int64.
    """
    return torch.where(proposal < capacity, proposal, capacity.to(proposal.dtype))


def settle_proposal(proposal: Tensor, budget: Tensor, patches: Tensor) -> Allocation:
    """One non-final layer of Alg. 1 for a proposal that is already known (a schedule, or a readout times the budget).

    Args:
        proposal: continuous removals. ``(B,)`` float.
        budget: unspent removals B^(l). ``(B,)`` int64.
        patches: patches N_l entering the layer. ``(B,)`` int64.
    """
    capacity = removal_capacity(budget, patches)
    removals = integer_removal(proposal, capacity)
    return Allocation(removals, soft_target(proposal, capacity), budget - removals)


def allocate(share_logit: Tensor | None, budget: Tensor, patches: Tensor, last: bool) -> Allocation:
    """One layer of Alg. 1: the register's share of the unspent budget, or the whole remainder at the last layer.

    Started with B = N_1 - K and fed its own ``remaining``, the sequence of calls removes exactly N_1 - K patches and
    never empties an image (Eq. S3). The budget handed on is an integer: gradients stay within the layer.

    Args:
        share_logit: g^(l) = w.r + b of every image; not read at the last layer. ``(B,)`` float or None.
        budget: unspent removals B^(l). ``(B,)`` int64.
        patches: patches N_l entering the layer. ``(B,)`` int64.
        last: whether this is the last pruning layer l_M.

    Raises:
        ValueError: a layer before the last one has no share.
    """
    if last:
        return Allocation(budget, budget.to(torch.float32), torch.zeros_like(budget))
    if share_logit is None:
        raise ValueError("share_logit: only the last pruning layer goes without a share")
    # Vectorised sigmoids differ in the last bit from those at the end of a batch; float64 in between hides that, and no
    # image's count depends on its batch.
    share = torch.sigmoid(share_logit.to(torch.float64)).to(torch.float32)
    return settle_proposal(share * budget, budget, patches)


def split_by_shares(shares: Sequence[float], total: int) -> list[int]:
    """Cuts a removal budget by fixed shares (the static rule), by largest remainder; earlier layers win ties.

    Args:
        shares: weight of every pruning layer; any common unit (percent, fractions).
        total: removals to distribute.

    Returns:
        Removals of every layer; they sum to ``total``.

    Raises:
        UserError: a share is negative or not finite, all are zero, or the total is negative.
    """
    if any(not 0.0 <= share < float("inf") for share in shares) or not any(shares):
        raise UserError(f"shares: {list(shares)} must be finite, not negative and not all zero")
    if total < 0:
        raise UserError(f"total: {total} removals cannot be split; the budget must not be negative")
    weights = [Fraction(repr(float(share))) for share in shares]
    quotas = [weight * total / sum(weights) for weight in weights]
    removals = [floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda layer: removals[layer] - quotas[layer])
    for layer in by_remainder[: total - sum(removals)]:
        removals[layer] += 1
    return removals
