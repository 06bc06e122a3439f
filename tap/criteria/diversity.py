"""k-centre: farthest point sampling by cosine distance of tokens or keys."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tap.criteria.base import ProbeInputs, Rule


def k_centre(similarity: Callable[[ProbeInputs], Tensor]) -> Rule:
    """The rule that samples by one of the inputs' `cosines`."""

    def rule(inputs: ProbeInputs, count: int) -> Tensor:
        return farthest_points(similarity(inputs), count)

    return rule


def farthest_points(similarity: Tensor, count: int) -> Tensor:
    """Keeps the patch nearest to the mean of the normalised features, then always the one farthest from those kept.

    The cosine with that mean grows with the sum of a patch's cosines with all. The distance to a set is the one to its
    nearest member, so the largest cosine is remembered and the smallest of these is next. Ties go to the lower index.

    Args:
        similarity: `cosines` of the image's patches. ``(B, N, N)`` int32.
        count: patches to keep.

    Returns:
        ``(B, N)`` bool.
    """
    batch, patches, _ = similarity.shape
    rows = similarity.view(batch * patches, patches)
    first_row = torch.arange(batch, device=similarity.device) * patches
    taken = torch.iinfo(torch.int32).max

    chosen = similarity.sum(dim=2, dtype=torch.int64).argmax(dim=1)
    nearest = torch.full((batch, patches), -taken, dtype=torch.int32, device=similarity.device)
    for _ in range(count - 1):
        torch.maximum(nearest, rows.index_select(0, first_row + chosen), out=nearest)
        nearest.scatter_(1, chosen.unsqueeze(1), taken)
        chosen = nearest.argmin(dim=1)
    return (nearest == taken).scatter_(1, chosen.unsqueeze(1), True)
