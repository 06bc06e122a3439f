"""Dense features at removed positions: offsets, pointer chains and reconstruction (Eq. 3, Alg. S3).

Everything is indexed by original patch position, so that records need no spatial index of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor


def removal_offset(removed: Tensor, kept: Tensor, stand_in: Tensor) -> Tensor:
    """delta_i = x_i - x_pi(i) at the removal layer (Eq. S10); gradients reach both features, none the pointer.

    Args:
        removed: features of the removed patches entering the block. ``(B, R, d)``.
        kept: features of the retained patches entering the block. ``(B, S, d)``.
        stand_in: column of each removed patch's stand-in in ``kept``. ``(B, R)`` int64.

    Returns:
        Offsets. ``(B, R, d)``.
    """
    return removed - _rows(kept, stand_in)


def resolve_pointers(pointer: Tensor, links: int) -> Tensor:
    """pi*(i): follows every chain to the position that survives at the read point (Alg. S3).

    Each gather doubles the length that is resolved, so ``links`` links take about log2(links + 1) gathers.

    Args:
        pointer: original position of the immediate stand-in; a survivor points to itself. ``(B, N)`` int.
        links: most stand-ins of one chain that were removed later: M - 1 for M pruning layers.

    Returns:
        Surviving position. ``(B, N)`` int64.
    """
    resolved = pointer.to(torch.int64)
    for _ in range(links.bit_length()):
        resolved = resolved.gather(1, resolved)
    return resolved


def reconstruct(grid: Tensor, removed: Tensor, endpoint: Tensor, offset: Tensor, scale: Tensor) -> Tensor:
    """x^_i = x_pi*(i) + alpha * delta_i at removed positions, survivors as they are (Eq. 3, Eq. S11).

    Only the offset and the scale of the position's own removal enter, none of stand-ins removed later. Gradients
    reach the surviving endpoint, the offset (hence removed feature and stand-in) and the scale.

    Args:
        grid: features at the read point by original position; values at removed positions are not read. ``(B, N, d)``.
        removed: positions removed up to the read point. ``(B, N)`` bool.
        endpoint: surviving position pi*(i), from `resolve_pointers`. ``(B, N)`` int64.
        offset: delta by original position; finite (such as 0) where nothing was removed. ``(B, N, d)``.
        scale: alpha of the layer that removed each position; finite elsewhere. ``(B, N)``.

    Returns:
        Dense grid in the type of ``grid``. ``(B, N, d)``.
    """
    restored = _rows(grid, endpoint) + scale.unsqueeze(2) * offset
    return torch.where(removed.unsqueeze(2), restored.to(grid.dtype), grid)


def buffer_bytes(removed: int, width: int, layers: int, scalar_bytes: int = 2, pointer_bytes: int = 4) -> int:
    """M_buffer = R (d b_s + b_p) + M b_s: bytes of one image's recovery records (Eq. S15).

    Args:
        removed: patches R removed in all.
        width: token width d.
        layers: pruning layers M, each with one stored scale.
        scalar_bytes: bytes of a stored offset entry and scale; BF16 in the paper.
        pointer_bytes: bytes of a pointer; INT32 in the paper.
    """
    return removed * (width * scalar_bytes + pointer_bytes) + layers * scalar_bytes


def _rows(features: Tensor, index: Tensor) -> Tensor:
    return features.gather(1, index.unsqueeze(2).expand(-1, -1, features.shape[2]))
