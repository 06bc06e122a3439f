"""Coverage: farthest point sampling of patch centres; depends on the grid alone, and fewer patches are a prefix."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from tap.criteria.base import ProbeInputs


def coverage(inputs: ProbeInputs, count: int) -> Tensor:
    """Keeps the first patches of the grid's order, the same in every image. ``(B, N)`` bool."""
    keep = torch.zeros(inputs.patches, dtype=torch.bool)
    keep[coverage_order(inputs.grid)[:count]] = True
    return keep.to(inputs.sample_ids.device).expand(len(inputs.sample_ids), -1)


@lru_cache
def coverage_order(grid: tuple[int, int]) -> Tensor:
    """All patches in the order of deterministic farthest point sampling (Sec. Controlled study).

    Centres are scaled to [0, 1] in both directions. The first patch is the nearest to the image centre, each next one
    the farthest from those before it; ties go to the lower index. Distances are exact: coordinates are integers, in
    units of one over twice the number of cells.

    Args:
        grid: rows and columns.

    Returns:
        Indices on the CPU, shared by all callers: not to be written to. ``(N,)`` int64.
    """
    rows, columns = grid
    cell = torch.arange(rows * columns)
    y, x = (2 * (cell // columns) + 1) * columns, (2 * (cell % columns) + 1) * rows

    chosen = ((y - rows * columns).square() + (x - rows * columns).square()).argmin()
    order = torch.empty_like(cell)
    distance = torch.full_like(cell, torch.iinfo(torch.int64).max)
    for step in range(len(cell)):
        order[step] = chosen
        torch.minimum(distance, (y - y[chosen]).square() + (x - x[chosen]).square(), out=distance)
        distance[chosen] = -1
        chosen = distance.argmax()
    return order
