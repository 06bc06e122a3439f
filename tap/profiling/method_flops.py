"""Operations of a pass of every method by one formula, from the patches that each block really had.

Two for each multiply-accumulate of a matrix product or convolution; products with padding count, since a device
computes them. `tests/profiling/test_method_flops.py` holds all methods against torch's counter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tap.encoder.low_rank import LowRankLinear
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.trace import Trace
from tap.encoder.vitdet import GridAttention
from tap.plan.flops import block_flops, embedding_flops

Removal = Literal["queries", "block", "mlp", "end"]

REMOVES: Final[Mapping[str, Removal]] = {
    "dense": "end",
    "random": "queries",
    "attn_topk": "mlp",
    "evit": "mlp",
    "dynamicvit": "block",
    "evovit": "block",
    "ats": "mlp",
    "tome": "mlp",
    "diffrate": "mlp",
    "algm": "mlp",
    "dtop": "end",
    "svit": "block",
    "cropr": "end",
    "static": "queries",
    "tap": "queries",
    "tap_f": "queries",
}
"""What of a pruning block no longer sees what it removes: its queries and values (keys are those of all candidates),
all of it, its MLP, or only the blocks behind it."""


@dataclass(frozen=True)
class _Block:
    """One block of a pass.

    Attributes:
        reducer: the method.
        layer: its number, from 1.
        dim, heads: width d and heads.
        prefix: rows in front of the patches.
        before, after: patches of each image before and after its removal `(B,)`, int64.
        longer: what relative position adds to queries and keys of a head; 0 without.
        matched: whether removed patches are matched to those that stay, for a dense head.
    """

    reducer: Any
    layer: int
    dim: int
    heads: int
    prefix: int
    before: Tensor
    after: Tensor
    longer: int
    matched: bool

    @property
    def images(self) -> int:
        return len(self.before)

    @property
    def rows(self) -> float:
        """Rows of all images that enter."""
        return float((self.before + self.prefix).sum())

    @property
    def removed(self) -> int:
        """Patches that the image loses that loses most."""
        return int((self.before - self.after).max())

    @property
    def width(self) -> int:
        """Patches of the longest image before the removal."""
        return int(self.before.max())

    @property
    def left(self) -> int:
        """Patches of the longest image after the removal."""
        return int(self.after.max())


def from_counts(encoder: SparseEncoder, trace: Trace) -> float:
    """Operations of all images of a pass (Alg. S1 and the baselines' own work), from its realised counts.

    Args:
        encoder: of a method in `REMOVES`.
        trace: what the pass decided.
    """
    vit, reducer = encoder.vit, encoder.reducer
    images, patches = len(trace.final_counts), trace.grid[0] * trace.grid[1]
    extra = reducer.extra_prefix(1, patches)
    prefix = vit.num_prefix_tokens + (0 if extra is None else extra.shape[1])
    matched = bool(encoder.read_blocks) and reducer.method.readout in ("common", "learned")
    everything = torch.full((images,), patches, dtype=torch.int64)
    all_there = torch.ones(images, patches, dtype=torch.bool)
    total = images * embedding_flops(patches, vit.embed_dim, vit.patch_embed.proj.weight[0].numel())
    current, present = everything, all_there
    for layer, block in enumerate(vit.blocks, start=1):
        if _returns(reducer, layer):
            current, present = everything, all_there
        after, stay = current, present
        if layer in trace.removed:
            after, stay = current - trace.removed[layer].cpu(), trace.kept[layer].cpu()
        longer = _longer(block.attn, trace.grid)
        given = _Block(reducer, layer, vit.embed_dim, block.attn.num_heads, prefix, current, after, longer, matched)
        total += _block(block, given, present, stay, trace.grid)
        if after is not current or layer in _scoring(reducer):
            total += OWN.get(reducer.name, _nothing)(given) + _matching(given)
        current, present = after, stay
    return total


def _block(block: Any, given: _Block, present: Tensor, stay: Tensor, grid: tuple[int, int]) -> float:
    """The block itself: projections, attention within images or windows, MLP."""
    removes = REMOVES[given.reducer.name]
    attending, there = (given.after, stay) if removes in ("queries", "block") else (given.before, present)
    through = given.before if removes == "end" else given.after
    keys = given.before if removes == "queries" and _keys_first(given) else attending
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
    return plain + _tables(given, seen) + _updates(block, given, projected, rows, wide)


def _updates(block: Any, given: _Block, projected: float, rows: float, wide: float) -> float:
    """Low-rank updates beside the weights (TAP-F); queries, keys and values share one narrow product or have three."""
    attn, mlp = block.attn, block.mlp
    if not isinstance(attn.qkv, LowRankLinear):
        return 0.0
    narrow = projected + 2 * rows if given.removed else rows
    total = attn.qkv.rank * given.dim * (narrow + projected + 2 * rows)
    for layer, seen in ((attn.proj, rows), (mlp.fc1, wide), (mlp.fc2, wide)):
        total += layer.rank * (layer.in_features + layer.out_features) * seen
    return 2 * total


def _tables(given: _Block, rows: float) -> float:
    """Queries times the vectors of all distances, of which relative position takes those that there are."""
    return 2 * rows * given.dim * 2 * given.longer


def _longer(attn: Any, grid: tuple[int, int]) -> int:
    if type(attn) is not GridAttention or attn.tables is None:
        return 0
    return sum(grid) if attn.side is None else 2 * attn.side


def _in_windows(there: Tensor, grid: tuple[int, int], side: int, padded: bool) -> Tensor:
    """Patches in each window of each image, of those that are there `(B, N_1)`."""
    down, across = (-(-length // side) for length in grid)
    cells = F.pad(there.view(len(there), *grid), (0, across * side - grid[1], 0, down * side - grid[0]), value=padded)
    return cells.view(len(there), down, side, across, side).sum(dim=(2, 4)).flatten()


def _returns(reducer: Any, layer: int) -> bool:
    """Whether a block begins with all patches again."""
    if reducer.name == "evovit":
        return layer in reducer.stages
    if reducer.name == "cropr":
        return layer == reducer.settings.depth and reducer.options.last_layer_fusion
    return reducer.name == "svit"


def _scoring(reducer: Any) -> tuple[int, ...]:
    """Blocks that cost something of their own although they remove nothing."""
    if reducer.keep_rate == 1.0:
        return ()
    if reducer.name == "evovit":
        return tuple(range(reducer.stages[0] - 1, reducer.stages[-1]))
    return reducer.layers if reducer.name == "dtop" else ()


def _keys_first(given: _Block) -> bool:
    """Random looks at keys only where recovery does."""
    return given.reducer.name != "random" or given.matched


def _matching(given: _Block) -> float:
    """Cosines of the keys of removed patches with those of the others (Eq. 2), padded to the longest image."""
    return 2.0 * given.images * given.dim * given.removed * given.left if given.matched else 0.0


def _nothing(_: _Block) -> float:
    return 0.0


def _register(given: _Block) -> float:
    """The register's query; scores are a product and a sum (Eq. 1), readouts a vector each."""
    return 2.0 * given.images * given.dim**2 if given.removed else 0.0


def _class_row(given: _Block) -> float:
    """Attention logits of the class token."""
    return 2.0 * given.images * given.dim * (given.width + given.prefix)


def _all_rows(given: _Block) -> float:
    """Attention logits of all queries, relative position included."""
    pairs = float((given.before + given.prefix).square().sum())
    return 2 * pairs * (given.dim + given.heads * given.longer) + _tables(given, given.rows)


def _static(given: _Block) -> float:
    """Queries of the candidates, and what each of them receives."""
    return 2 * given.rows * given.dim**2 + _all_rows(given)


def _attn_topk(given: _Block) -> float:
    return _class_row(given) if given.reducer.settings.class_token else _all_rows(given)


def _evit(given: _Block) -> float:
    """The class token's attention, and the weighted sum of what goes."""
    return _class_row(given) + (2.0 * float(given.before.sum()) * given.dim if given.reducer.options.fuse else 0.0)


def _evovit(given: _Block) -> float:
    """The class token's attention on the slow patches, in every block before the last choice."""
    stages = given.reducer.stages
    if given.layer + 1 < stages[0] or given.layer >= stages[-1]:
        return 0.0
    return 2.0 * given.dim * float((given.after + given.prefix).sum())


def _merging(given: _Block, sources: int) -> float:
    """Means of merged patches as a product with the table of who goes where."""
    rows = given.left + (given.prefix if int(given.after.min()) == given.left else 0)
    return 2.0 * given.images * rows * sources * given.dim


def _pairing(given: _Block, width: float) -> float:
    """Cosines of every second token with the others."""
    candidates = len(range(given.prefix % 2, given.width, 2))
    return 2.0 * given.images * candidates * (given.width - candidates) * width


def _tome(given: _Block) -> float:
    return _pairing(given, given.dim / given.heads) + _merging(given, given.removed) if given.removed else 0.0


def _algm(given: _Block) -> float:
    local = given.layer == given.reducer.options.local_block
    return _merging(given, given.removed) + (0.0 if local else _pairing(given, given.dim))


def _diffrate(given: _Block) -> float:
    """The class token's attention; cosines of the merged patches, which are fewer than the removed ones."""
    if not given.removed:
        return 0.0
    patches = given.reducer.settings.patches or given.width
    pruned, merged = (counts[given.layer - 1] for counts in given.reducer.counts(patches))
    cosines = 2.0 * given.images * (pruned - merged) * merged * given.dim
    return _class_row(given) + cosines + _merging(given, pruned - merged)


def _linear(module: nn.Module) -> int:
    """Multiply-accumulates of one row in all linear layers of a module."""
    return sum(part.weight.numel() for part in module.modules() if isinstance(part, nn.Linear))


def _dynamicvit(given: _Block) -> float:
    stage = given.reducer.settings.layers.index(given.layer)
    return 2.0 * float(given.before.sum()) * _linear(given.reducer.predictors[stage]) if given.removed else 0.0


def _svit(given: _Block) -> float:
    return 2.0 * float(given.before.sum()) * _linear(given.reducer.gates[given.reducer.gated.index(given.layer)])


def _cropr(given: _Block) -> float:
    """Nothing in the published form, whose queries meet the tokens as they are; else both are projected."""
    scorer = given.reducer.scorers[given.reducer.layers.index(given.layer)]
    return 2.0 * (given.rows + scorer.queries.shape[1]) * _linear(scorer.k)


def _dtop(given: _Block) -> float:
    """A decoder with a query for each class: what is linear in patches, in queries, and their attention."""
    head = given.reducer.heads[given.reducer.layers.index(given.layer)]
    classes, channels = head.queries.shape
    patches = given.images * given.width
    total = patches * head.input_proj.weight.numel() + given.images * classes * head.presence.weight.numel()
    for _ in head.layers:
        by_patch, by_query = 2 * channels**2, (4 + 2 + 8) * channels**2  # keys, values; own, across, MLP
        total += patches * by_patch + given.images * classes * by_query
        total += 2 * given.images * classes * (classes + given.width) * channels
    return 2.0 * total


OWN: Final[Mapping[str, Callable[[_Block], float]]] = {
    "tap": _register,
    "tap_f": _register,
    "static": _static,
    "attn_topk": _attn_topk,
    "evit": _evit,
    "evovit": _evovit,
    "ats": _class_row,
    "tome": _tome,
    "diffrate": _diffrate,
    "algm": _algm,
    "dynamicvit": _dynamicvit,
    "svit": _svit,
    "cropr": _cropr,
    "dtop": _dtop,
}
"""What a method computes beside the blocks themselves; Random draws, and no pruning decides nothing."""
