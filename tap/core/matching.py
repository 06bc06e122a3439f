"""Which retained patch stands in for a removed one: the paper's key-space rule (Eq. 2) and its controls.

Every rule returns columns into the retained set, ``(B, R)`` int64, and gives ties to the lowest column, which is the
smaller original index as long as the retained set is in original order. Pointers carry no gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tap.core.noise import stateless_uniform

MATRIX_BYTES = 256_000_000
"""Similarities of one image that exist at once, at most."""
EPSILON = 1e-6
"""Floor of a key's norm in Eq. 2."""
TIE = 1e-6
"""Cosines that differ by less are equal: matrix kernels round copies of one key differently at the edge of a tile."""


def cosine_stand_ins(removed: Tensor, kept: Tensor, kept_valid: Tensor | None = None) -> Tensor:
    """pi(i): the retained patch with the largest cosine similarity (Eq. 2, Eq. S9), compared in float32 up to `TIE`.

    Keys give the paper's rule, token features its control "token cosine".

    Args:
        removed: concatenated heads of the removed patches. ``(B, R, c)``.
        kept: the same of the retained patches. ``(B, S, c)``.
        kept_valid: marks real retained patches, at least one per image; None means all. ``(B, S)`` bool.

    Returns:
        Column of the stand-in. ``(B, R)`` int64.
    """
    at_once = max(1, MATRIX_BYTES // (4 * max(1, kept.shape[1])))
    kept = _unit(kept).transpose(1, 2)
    return torch.cat([_most_similar(_unit(some), kept, kept_valid) for some in removed.split(at_once, dim=1)], dim=1)


def _most_similar(removed: Tensor, kept: Tensor, kept_valid: Tensor | None) -> Tensor:
    """The column of the best product of `(B, R, c)` and `(B, c, S)`, of those within `TIE` the lowest `(B, R)`."""
    with torch.autocast(removed.device.type, enabled=False):
        similarity = torch.bmm(removed, kept)
    if kept_valid is not None:
        similarity = similarity.masked_fill(~kept_valid.unsqueeze(1), float("-inf"))
    tied = similarity >= similarity.amax(dim=2, keepdim=True) - TIE
    return tied.to(torch.uint8).argmax(dim=2)


def spatial_stand_ins(
    removed_index: Tensor, kept_index: Tensor, grid_width: int, kept_valid: Tensor | None = None
) -> Tensor:
    """Control: the retained patch at the smallest Euclidean distance on the patch grid, in exact integers.

    Args:
        removed_index: original row-major index of the removed patches. ``(B, R)`` int64.
        kept_index: original row-major index of the retained patches. ``(B, S)`` int64.
        grid_width: columns of the patch grid.
        kept_valid: marks real retained patches, at least one per image; None means all. ``(B, S)`` bool.

    Returns:
        Column of the stand-in. ``(B, R)`` int64.
    """
    removed = removed_index.to(torch.int32).unsqueeze(2)
    kept = kept_index.to(torch.int32).unsqueeze(1)
    rows = removed // grid_width - kept // grid_width
    columns = removed % grid_width - kept % grid_width
    distance = rows * rows + columns * columns
    if kept_valid is not None:
        distance = distance.masked_fill(~kept_valid.unsqueeze(1), torch.iinfo(torch.int32).max)
    return distance.argmin(dim=2)


def top_score_stand_in(kept_scores: Tensor, removed: int, kept_valid: Tensor | None = None) -> Tensor:
    """Control: the highest-scoring retained patch stands in for every removed one.

    Args:
        kept_scores: ranking scores of the retained patches. ``(B, S)``.
        removed: columns R of the result.
        kept_valid: marks real retained patches, at least one per image; None means all. ``(B, S)`` bool.

    Returns:
        Column of the stand-in. ``(B, removed)`` int64.
    """
    scores = torch.nan_to_num(kept_scores.detach().to(torch.float32), nan=torch.finfo(torch.float32).min)
    if kept_valid is not None:
        scores = scores.masked_fill(~kept_valid, float("-inf"))
    return scores.argmax(dim=1, keepdim=True).expand(-1, removed)


def random_stand_ins(
    seed: int, sample_ids: Tensor, layer: int, removed_index: Tensor, patches: int, kept_valid: Tensor
) -> Tensor:
    """Control: a seeded random retained patch, a pure function of (seed, sample id, layer, original index).

    Args:
        seed: any integer.
        sample_ids: identity of every image in its data set. ``(B,)`` int64.
        layer: pruning layer.
        removed_index: original index of the removed patches. ``(B, R)`` int64.
        patches: patches N_1 of the whole grid.
        kept_valid: marks real retained patches, at least one per image. ``(B, S)`` bool.

    Returns:
        Column of the stand-in. ``(B, R)`` int64.
    """
    draw = stateless_uniform(seed, sample_ids, layer, patches).gather(1, removed_index)
    rank = (draw * kept_valid.sum(dim=1, keepdim=True)).to(torch.int64)
    # The rank-th real column: real columns first, each group in its own order.
    real_first = kept_valid.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
    return real_first.gather(1, rank)


def _unit(features: Tensor) -> Tensor:
    return functional.normalize(features.detach().to(torch.float32), dim=-1, eps=EPSILON)
