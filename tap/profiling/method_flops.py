"""Operations of a pass of every method by one formula, from the patches that each block really had.

Two for each multiply-accumulate of a matrix product or convolution; products with padding count, since a device
computes them. `tests/profiling/test_method_flops.py` holds all methods against torch's counter.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tap.encoder.low_rank import LowRankLinear
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.trace import Trace
from tap.encoder.vitdet import GridAttention
from tap.plan.flops import block_flops, embedding_flops
from tap.reducers.costs import BlockCounts, Cost, cost_of, relative_tables


def from_counts(encoder: SparseEncoder, trace: Trace) -> float:
    """Operations of all images of a pass (Alg. S1 and the baselines' own work), from its realised counts.

    Args:
        encoder: of a method whose file declares a `COST`.
        trace: what the pass decided.

    Raises:
        ValueError: the method declares none.
    """
    vit, reducer = encoder.vit, encoder.reducer
    cost = cost_of(reducer)
    if cost is None:
        raise ValueError(f"method '{reducer.name}': its file declares no COST")
    images, patches = len(trace.final_counts), trace.grid[0] * trace.grid[1]
    extra = reducer.extra_prefix(1, patches)
    prefix = vit.num_prefix_tokens + (0 if extra is None else extra.shape[1])
    matched = bool(encoder.read_blocks) and reducer.method.readout in ("common", "learned")
    everything = torch.full((images,), patches, dtype=torch.int64)
    all_there = torch.ones(images, patches, dtype=torch.bool)
    total = images * embedding_flops(patches, vit.embed_dim, vit.patch_embed.proj.weight[0].numel())
    current, present = everything, all_there
    for layer, block in enumerate(vit.blocks, start=1):
        if cost.restarts(reducer, layer):
            current, present = everything, all_there
        after, stay = current, present
        if layer in trace.removed:
            after, stay = current - trace.removed[layer].cpu(), trace.kept[layer].cpu()
        longer = _longer(block.attn, trace.grid)
        given = BlockCounts(
            reducer, layer, vit.embed_dim, block.attn.num_heads, prefix, current, after, longer, matched
        )
        total += _block(block, cost, given, present, stay, trace.grid)
        if after is not current or layer in cost.works(reducer):
            total += cost.own(given) + _matching(given)
        current, present = after, stay
    return total


def _block(block: Any, cost: Cost, given: BlockCounts, present: Tensor, stay: Tensor, grid: tuple[int, int]) -> float:
    """The block itself: projections, attention within images or windows, MLP."""
    removes = cost.removes
    attending, there = (given.after, stay) if removes in ("queries", "block") else (given.before, present)
    through = given.before if removes == "end" else given.after
    keys = given.before if removes == "queries" and (cost.looks or given.matched) else attending
    windows = type(block.attn) is GridAttention and block.attn.side is not None
    if windows:
        lengths, prefix = _in_windows(there, grid, block.attn.side, block.attn.padded), 0  # prefix rows pass by
    else:
        lengths, prefix = attending + given.prefix, given.prefix
    rows, seen = float((attending + prefix).sum()), float(lengths.sum())
    pairs = float(lengths.square().sum())
    mlp = block.mlp.fc1.out_features / given.dim
    projected, wide = float((keys + prefix).sum()), float((through + prefix).sum())
    plain = block_flops(rows, given.dim, projected, mlp, pairs / rows, given.heads * given.longer, wide)
    return plain + relative_tables(given, seen) + _updates(block, given, projected, rows, wide)


def _updates(block: Any, given: BlockCounts, projected: float, rows: float, wide: float) -> float:
    """Low-rank updates beside the weights (TAP-F); queries, keys and values share one narrow product or have three."""
    attn, mlp = block.attn, block.mlp
    if not isinstance(attn.qkv, LowRankLinear):
        return 0.0
    narrow = projected + 2 * rows if given.removed else rows
    total = attn.qkv.rank * given.dim * (narrow + projected + 2 * rows)
    for layer, seen in ((attn.proj, rows), (mlp.fc1, wide), (mlp.fc2, wide)):
        total += layer.rank * (layer.in_features + layer.out_features) * seen
    return 2 * total


def _longer(attn: Any, grid: tuple[int, int]) -> int:
    if type(attn) is not GridAttention or attn.tables is None:
        return 0
    return sum(grid) if attn.side is None else 2 * attn.side


def _in_windows(there: Tensor, grid: tuple[int, int], side: int, padded: bool) -> Tensor:
    """Patches in each window of each image, of those that are there `(B, N_1)`."""
    down, across = (-(-length // side) for length in grid)
    cells = F.pad(there.view(len(there), *grid), (0, across * side - grid[1], 0, down * side - grid[0]), value=padded)
    return cells.view(len(there), down, side, across, side).sum(dim=(2, 4)).flatten()


def _matching(given: BlockCounts) -> float:
    """Cosines of the keys of removed patches with those of the others (Eq. 2), padded to the longest image."""
    return 2.0 * given.images * given.dim * given.removed * given.left if given.matched else 0.0
