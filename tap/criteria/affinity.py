"""Redundancy: of the closest pair of tokens or keys, the more redundant member goes, again and again."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tap.criteria.base import ProbeInputs, Rule

_ROUNDS_PER_CHECK = 32
"""Rounds between two looks at whether all images are done; a look is a host read on a GPU."""


def redundancy(similarity: Callable[[ProbeInputs], Tensor]) -> Rule:
    """The rule that thins out by one of the inputs' `cosines`."""

    def rule(inputs: ProbeInputs, count: int) -> Tensor:
        return remove_redundant(similarity(inputs), inputs.patches - count)

    return rule


def remove_redundant(similarity: Tensor, removals: int) -> Tensor:
    """Removes the more redundant member of the closest pair until ``removals`` are gone (`tab:criteria`).

    The more redundant member has the larger mean cosine to the current set; a tie removes the larger index. Of equally
    close pairs the one with the lowest indices is taken. Ties are those of `cosines`, which makes copies of a patch tie
    exactly; cosines that are equal in exact arithmetic and not of copies may differ in their last unit, and then the
    larger one is the closer pair.

    Every patch carries a bound: the cosine of its nearest remaining neighbour when it was last looked at. Removing can
    only lower what is bounded, so the patch with the largest bound is looked at again. Where the bound still holds, its
    pair is the closest one and loses a member; else the bound is lowered. A round does one of the two in every image.

    Args:
        similarity: `cosines` of the image's patches. ``(B, N, N)`` int32.
        removals: patches to remove, fewer than N.

    Returns:
        What stays. ``(B, N)`` bool.
    """
    batch, patches, _ = similarity.shape
    gone = torch.iinfo(torch.int32).min
    total = similarity.sum(dim=2, dtype=torch.int64) - similarity.diagonal(dim1=1, dim2=2)
    similarity = similarity.clone()
    similarity.diagonal(dim1=1, dim2=2).fill_(gone)
    rows = similarity.view(batch * patches, patches)
    first_row = torch.arange(batch, device=similarity.device).unsqueeze(1) * patches

    bound = similarity.amax(dim=2)
    removed = torch.zeros(batch, patches, dtype=torch.bool, device=similarity.device)
    left = torch.full((batch, 1), removals, device=similarity.device)
    rounds = 0
    while rounds % _ROUNDS_PER_CHECK or left.any():
        rounds += 1
        one = bound.argmax(dim=1, keepdim=True)  # argmax and gather take a tenth of the time of max
        largest = bound.gather(1, one)
        row = rows.index_select(0, (first_row + one).squeeze(1)).masked_fill_(removed, gone)
        other = row.argmax(dim=1, keepdim=True)
        nearest = row.gather(1, other)
        bound.scatter_(1, one, nearest)
        # The first patch with the largest bound is the lower one of its pair: the other has at least the same bound.
        closest = (nearest == largest) & (left > 0)
        loser = torch.where(total.gather(1, one) > total.gather(1, other), one, other)
        removed.scatter_(1, loser, closest | removed.gather(1, loser))
        bound.scatter_(1, loser, torch.where(closest, gone, bound.gather(1, loser)))
        total -= rows.index_select(0, (first_row + loser).squeeze(1)) * closest
        left -= closest.to(left.dtype)
    return ~removed
