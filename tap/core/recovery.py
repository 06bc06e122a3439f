"""Dense features at removed positions: offsets, pointer chains and reconstruction (Eq. 3, Alg. S3).

Everything is indexed by original patch position, so that records need no spatial index of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor


def removal_offset(removed: Tensor, stand_in: Tensor) -> Tensor:
    """delta_i = x_i - x_pi(i) at the removal layer (Eq. S10); gradients reach both features.

    Args:
        removed: features of the removed patches entering the block. ``(R, d)``.
        stand_in: features of their stand-ins entering the same block. ``(R, d)``.

    Returns:
        Offsets. ``(R, d)``.
    """
    return removed - stand_in


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


def reconstruct(endpoint: Tensor, offset: Tensor, scale: Tensor) -> Tensor:
    """x^_i = x_pi*(i) + alpha * delta_i at removed positions (Eq. 3, Eq. S11).

    Only the offset and the scale of the position's own removal enter, none of stand-ins removed later. Gradients
    reach the surviving endpoint, the offset (hence removed feature and stand-in) and the scale.

    Args:
        endpoint: features at the read point of the survivor at the end of each position's chain. ``(R, d)``.
        offset: delta of each removed position. ``(R, d)``.
        scale: alpha of the layer that removed each position. ``(R,)``.

    Returns:
        Restored features in the type of ``endpoint``. ``(R, d)``.
    """
    return endpoint + (scale.unsqueeze(1) * offset).to(endpoint.dtype)


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
