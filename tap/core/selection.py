"""Which patches stay: the register-to-patch score and the hard ranking (Eq. 1, Alg. S2)."""

from __future__ import annotations

import torch
from torch import Tensor


def register_scores(query: Tensor, keys: Tensor) -> Tensor:
    """f_i = sum over heads of q_h . k_ih / sqrt(d_h) (Eq. 1, Eq. S1), in float32 whatever the input type.

    Written as product and sum, not as a matrix product: the bits of one score then depend neither on batch mates nor on
    the other candidates, and TensorFloat-32 or autocast cannot round the ranking.

    Args:
        query: the register's query of every image. ``(B, H, d_h)``.
        keys: keys of all candidate patches. ``(B, N, H, d_h)``.

    Returns:
        Scores. ``(B, N)`` float32.
    """
    return _scaled_products(query.unsqueeze(1), keys)


def ragged_register_scores(query: Tensor, keys: Tensor, image: Tensor) -> Tensor:
    """Eq. 1 for a packed sequence, with the bits of `register_scores`.

    Args:
        query: the register's query of every image. ``(B, H, d_h)``.
        keys: keys of the candidates of all images, concatenated. ``(T, H, d_h)``.
        image: which image each candidate belongs to. ``(T,)`` integer.

    Returns:
        Scores. ``(T,)`` float32.
    """
    return _scaled_products(query.index_select(0, image), keys)


def _scaled_products(query: Tensor, keys: Tensor) -> Tensor:
    products = query.to(torch.float32) * keys.to(torch.float32)
    return products.flatten(-2).sum(dim=-1) * query.shape[-1] ** -0.5


def select(scores: Tensor, removals: Tensor, valid: Tensor | None = None) -> Tensor:
    """Keeps the highest-ranked patches of every image (Alg. S2).

    Ranks by decreasing float32 score, then by increasing column, which is increasing original index on the padded grid;
    ``-0.0`` equals ``0.0``. The mask is in column order, so gathering with it restores the original order. NaN ranks
    last: such a patch stays only where too few others are left (the features are NaN then, and so is the loss).

    Args:
        scores: perturbed scores in training, plain ones at inference. ``(B, N)``.
        removals: R^(l), below the number of candidates of its image. ``(B,)`` int64.
        valid: marks real candidates; None means all. ``(B, N)`` bool.

    Returns:
        Hard keep mask; padding is never kept. ``(B, N)`` bool.
    """
    ranked = scores.detach().to(torch.float32)
    lowest = torch.finfo(torch.float32).min
    # Some sorting kernels compare bit patterns, in which -0.0 < 0.0; and real candidates must stay above the padding.
    ranked = torch.nan_to_num(ranked, nan=lowest, posinf=float("inf"), neginf=lowest).masked_fill(ranked == 0, 0.0)
    if valid is None:
        candidates: Tensor | int = scores.shape[1]
    else:
        ranked = ranked.masked_fill(~valid, float("-inf"))
        candidates = valid.sum(dim=1)
    order = ranked.argsort(dim=1, descending=True, stable=True)
    columns = torch.arange(scores.shape[1], device=scores.device).expand_as(order)
    rank = torch.empty_like(order).scatter_(1, order, columns)
    return rank < (candidates - removals).unsqueeze(1)
