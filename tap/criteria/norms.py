"""Lengths of vectors, with the same bits whatever batch they come in."""

from __future__ import annotations

import torch
from torch import Tensor


def l1(vectors: Tensor) -> Tensor:
    """Sum of absolute values. ``(..., d)`` to ``(...)`` float64."""
    return row_sum(vectors.double().abs())


def l2(vectors: Tensor) -> Tensor:
    """Euclidean norm. ``(..., d)`` to ``(...)`` float64."""
    return row_sum(vectors.double().square()).sqrt()


def row_sum(values: Tensor) -> Tensor:
    """Sum over the last dimension in one fixed order of additions.

    Library reductions choose their order by the shape of the whole tensor, so a row's last bits could depend on its
    batch. Here the second half is added onto the first until one column is left, the same for any row on any device.
    """
    while (width := values.shape[-1]) > 1:
        half = width // 2
        rest = values[..., 2 * half :]
        values = values[..., :half] + values[..., half : 2 * half]
        if width % 2:
            values = torch.cat([values, rest], dim=-1)
    return values.squeeze(-1)
