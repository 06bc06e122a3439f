"""ALGM: merges similar windows early and similar tokens of the whole image later."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import Block
from torch import Tensor

from tap.encoder.blocks import add_attention, project_all, run_block, run_mlp
from tap.encoder.layout import on_device
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import Reducer, ReducerSettings
from tap.reducers.costs import BlockCounts, Cost, merging, pairing
from tap.reducers.merging import Bipartite, Merged, Plan, copy_to_positions, merge, note_merge, regroup
from tap.reducers.registry import register

METHOD = Method(readout="own", calibrated=True)
ROW = Row(
    "ALGM",
    tasks=("seg",),
    order=90,
    in_paper=True,
    origin=Origin(
        "tue-mps/algm-segmenter",
        "674eaa2",
        "MIT, parts CC BY-NC 4.0",
        readout="each position copies the merged token that holds it",
        adapted=("thresholds of each image alone, not of its batch", "local threshold calibrated to a mean of K"),
    ),
)


_WINDOW = 2


@register(METHOD)
class Algm(Reducer):
    """Local merging of 2 x 2 windows in one block, global merging of pairs in another; both by token cosine."""

    calibrated_first = True
    threshold_range = (-1.0, 1.0)

    threshold: Tensor
    """Mean cosine from which a window merges; global merging has a threshold of its own in every image."""

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(settings)
        self.blocks = (self.options.local_block, *self.options.global_blocks)
        if self.blocks[-1] > settings.depth:
            raise UserError(
                f"options.algm: block {self.blocks[-1]} does not exist in a model with {settings.depth} blocks; set "
                "local_block and global_blocks"
            )
        self.register_buffer("threshold", torch.tensor(float(self.options.threshold)))

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Attends with every token, then merges, then runs the MLP on what is left."""
        if layer not in self.blocks or state.keep_count == state.patches:
            return run_block(block, tokens)
        hidden = block.norm1(tokens.x)
        query, keys, value = project_all(block.attn, hidden)
        before = add_attention(block, tokens, hidden, query, keys, value)
        groups = Merged.of(before, state)
        patches = before.grid(before.x)
        if layer == self.options.local_block:
            plan = local_plan(patches, state.grid, self.threshold)
        else:
            plan = global_plan(before, patches, layer)
        tokens = merge(before, plan, groups.size)
        regroup(groups, plan).keep(state)
        note_merge(layer, before, tokens, plan, state)
        return run_mlp(block, tokens)

    def read(self, tokens: Tokens, state: ForwardState) -> Tensor:
        """Each input position gets the token that holds it."""
        return copy_to_positions(tokens, state)


def local_plan(patches: Tensor, grid: tuple[int, int], threshold: Tensor) -> Plan:
    """Merges each window whose mean pairwise cosine is at least the threshold into its last patch.

    Patches of a last odd row or column are in no window and stay. What is left are the merged windows in order of
    decreasing similarity, then all other patches in their order.

    Args:
        patches: states of the complete grid `(B, N, d)`.
        grid: rows and columns.
        threshold: `()`.
    """
    batch, total, device = len(patches), patches.shape[1], patches.device
    size, last = _WINDOW**2, _WINDOW**2 - 1
    rows, columns = (side // _WINDOW for side in grid)
    number = torch.arange(total, device=device).view(grid)[: rows * _WINDOW, : columns * _WINDOW]
    window = number.view(rows, _WINDOW, columns, _WINDOW).transpose(1, 2).reshape(rows * columns, size)
    similarity = window_similarity(patches, window)
    merged = similarity >= threshold
    many = merged.sum(dim=1).tolist()  # the one host read
    most = max(many)
    members = window[similarity.argsort(dim=1, descending=True, stable=True)[:, :most]]  # (B, W, 4)
    used = torch.arange(most, device=device) < on_device(many, device)[:, None]
    counts = tuple(total - last * windows for windows in many)
    # The new order: merged windows (0), then patches on their own (1); what was merged away (2) falls off the end.
    alone = torch.ones(batch, total, dtype=torch.int64, device=device)
    alone.scatter_(1, window.expand(batch, -1, -1).flatten(1), torch.where(merged, 2, 1).repeat_interleave(size, dim=1))
    place = torch.cat([torch.where(used, 0, 2), alone], dim=1).argsort(dim=1, stable=True)
    new = torch.minimum(torch.arange(max(counts), device=device), on_device(counts, device)[:, None] - 1)
    everything = torch.cat([members[..., last], torch.arange(total, device=device).expand(batch, -1)], dim=1)
    return Plan(
        order=everything.gather(1, place.gather(1, new)),
        counts=counts,
        source=members[..., :last].flatten(1),
        target=torch.arange(most, device=device).expand(batch, -1).repeat_interleave(last, dim=1),
        used=used.repeat_interleave(last, dim=1),
    )


def window_similarity(patches: Tensor, window: Tensor) -> Tensor:
    """Mean cosine over the pairs of different patches of each window `(B, W)`, float32.

    Args:
        patches: `(B, N, d)`.
        window: columns of each window's patches `(W, n)`.
    """
    unit = F.normalize(patches.detach().float(), dim=-1, eps=1e-8)[:, window]
    size = window.shape[1]
    # The pairs are what the square of the sum has beyond the squares.
    pairs = unit.sum(dim=2).square().sum(dim=-1) - unit.square().sum(dim=(2, 3))
    return pairs / (size * (size - 1))


def global_plan(tokens: Tokens, patches: Tensor, layer: int) -> Plan:
    """Merges each candidate whose cosine is at least mean + deviation / layer over the candidates of its own image.

    Args:
        tokens: the sequence.
        patches: its states on the padded grid `(B, N, d)`.
        layer: the block, from 1.
    """
    layout = tokens.layout
    match = Bipartite.match(patches, layout.prefix, layout.valid)
    many = exceeding(match.similarity, layer).sum(dim=1).tolist()  # the one host read
    return match.plan(many, layout.counts, layout.prefix)


def exceeding(similarity: Tensor, layer: int) -> Tensor:
    """Which similarities reach mean + standard deviation / layer of their row `(B, A)`, bool.

    Args:
        similarity: `(B, A)`; minus infinity where there is no candidate.
        layer: the block, from 1.
    """
    there = similarity.isfinite()
    values, number = similarity.masked_fill(~there, 0.0).double(), there.sum(dim=1, keepdim=True)
    mean = values.sum(dim=1, keepdim=True) / number
    square = ((values - mean).square() * there).sum(dim=1, keepdim=True) / (number - 1)
    # With a single candidate there is no deviation (nan): nothing merges, as in the public code.
    return (similarity >= mean + square.sqrt() / layer) & there


def _own_operations(given: BlockCounts) -> float:
    local = given.layer == given.reducer.options.local_block
    return merging(given, given.removed) + (0.0 if local else pairing(given, given.dim))


COST = Cost("mlp", own=_own_operations)
