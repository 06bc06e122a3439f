"""TAP's encoder in stages of static shape: another execution of the same encoder, for devices on which launches decide.

Before the first decision every image is complete, after the last one every image has exactly K patches: two rectangles.
In between, rows are packed to a *capacity*, the total length rounded up, whose spare rows form one dummy sequence. So a
stage's shapes depend on a few numbers that the host reads between stages, and each stage can be compiled as one graph.

Everything is kept by original position: which patches are alive `(B, N)`, and what recovery needs of removed ones.
Ranking, packing, matching and reconstruction are batched tensor code without a loop over images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from tap.core.budget import Allocation, allocate, keep_count, settle_proposal, split_by_shares
from tap.core.matching import EPSILON, MATRIX_BYTES, TIE
from tap.core.recovery import resolve_pointers
from tap.core.selection import ragged_register_scores, select
from tap.encoder.blocks import apply_mlp, project, project_all, project_back
from tap.encoder.vitdet import on_grid
from tap.errors import UserError

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]

GRAIN = 0.02
"""A capacity is a multiple of this share of the complete batch's rows: few shapes, few spare rows."""


class Shape(NamedTuple):
    """Static numbers of a packed stage.

    Attributes:
        capacity: rows of the packed matrix C.
        longest: no image has more rows.
        exact: whether every image has `longest` rows, without spare ones.
    """

    capacity: int
    longest: int
    exact: bool


class Ragged(NamedTuple):
    """Sequences of different lengths for both kinds of kernels, made once for a stage.

    Attributes:
        ends: cumulative lengths, the dummy sequence of spare rows last `(B + 2,)`, int32.
        cells: row of each cell of the images padded to the longest `(B, W)`.
        seen: which cells hold a row `(B, 1, 1, W)`, bool.
        back: cell of each row `(C,)`; any for a spare one.
    """

    ends: Tensor
    cells: Tensor
    seen: Tensor
    back: Tensor


class Packing(NamedTuple):
    """Where the rows of a packed matrix are.

    Attributes:
        position: position of each row in the complete sequences `(C,)`, laid end to end; B S for a spare row.
        row: row of each position `(B, S)`; any row for a position that is not alive.
        lengths: rows of each image `(B,)`.
        ragged: how attention finds the images; None in a rectangle.
    """

    position: Tensor
    row: Tensor
    lengths: Tensor
    ragged: Ragged | None = None


class Records(NamedTuple):
    """What recovery keeps, by original position.

    Attributes:
        pointer: stand-in of each removed patch, itself for the others `(B, N)`.
        offset: removed state minus stand-in state `(B, N, d)`, zero for the others.
        scale: recovery scale of the block that removed it `(B, N)`.
    """

    pointer: Tensor
    offset: Tensor
    scale: Tensor


class Decision(NamedTuple):
    """What a stage hands to the host and to the next stage.

    Attributes:
        x, hidden, keys: states, normalised states and keys of all candidates `(C, ...)`.
        row: their rows by position `(B, S)`.
        alive: patches that stay `(B, N)`, bool.
        counts: how many in each image `(B,)`.
        records: recovery, up to this block.
        scale: the recovery scale of this block `(B,)`; None without recovery.
    """

    x: Tensor
    hidden: Tensor
    keys: Tensor
    row: Tensor
    alive: Tensor
    counts: Tensor
    records: Records | None
    scale: Tensor | None


@dataclass(frozen=True)
class StagedResult:
    """What a staged pass gives.

    Attributes:
        x: states `(B, P + K, d)`.
        index: original index of each patch `(B, K)`.
        grids: complete grids at the read points `(B, N, d)`.
        kept: patches left after each pruning block `(B, N)`, bool.
        scales: recovery scales of each pruning block `(B,)`.
    """

    x: Tensor
    index: Tensor
    grids: list[Tensor]
    kept: dict[int, Tensor] = field(default_factory=dict)
    scales: dict[int, Tensor] = field(default_factory=dict)


class Stages:
    """The stages of one encoder.

    Args:
        vit: plain timm `VisionTransformer`.
        reducer: TAP as the paper has it.
        read_blocks: after which a dense head reads.
        learned: whether recovery scales are the register's; else `scale` for all.
        scale: a fixed recovery scale.
        compiler: applied to each stage, such as `functools.partial(torch.compile, fullgraph=True)`.

    Raises:
        UserError: the encoder has window attention or relative position, or decides otherwise than by the register.
    """

    def __init__(
        self, vit: Any, reducer: Any, read_blocks: tuple[int, ...], scale: float | None, compiler: Compile | None = None
    ) -> None:
        settings: Any = reducer.settings
        if on_grid(vit):
            raise UserError("execution: 'staged' has no windows or relative position; use 'plain' for a ViTDet trunk")
        if not hasattr(reducer, "controller") or settings.selection is not None or settings.estimator is not None:
            raise UserError("execution: 'staged' is for TAP with the evolving register; use 'plain' for other methods")
        self.vit, self.reducer, self.read_blocks, self.scale = vit, reducer, read_blocks, scale
        self.layers: tuple[int, ...] = settings.layers
        wrap = compiler or (lambda stage: stage)
        self._first, self._packed = wrap(self._first_stage), wrap(self._packed_stage)
        self._last = wrap(self._last_stage)

    def __call__(self, x: Tensor, patches: int) -> StagedResult:
        """Runs all blocks on embedded images `(B, P + N, d)`, register included; one host read between two stages."""
        batch, length, _ = x.shape
        prefix, keep = length - patches, keep_count(patches, self.reducer.keep_rate)
        decision, grids = self._first(x, prefix, keep)
        kept, scales = {self.layers[0]: decision.alive}, {}
        for number, layer in enumerate(self.layers):
            if decision.scale is not None:
                scales[layer] = decision.scale
            if number == len(self.layers) - 1:
                shape = Shape(batch * (prefix + keep), prefix + keep, True)
                states, read = self._last(decision, shape, prefix)
                break
            counts = decision.counts.tolist()  # the one host read between two stages
            shape = capacity([count + prefix for count in counts], batch * length)
            decision, read = self._packed(decision, shape, number + 1, prefix, keep)
            kept[self.layers[number + 1]] = decision.alive
            grids += read
        alive = decision.alive
        order = torch.arange(patches, device=x.device).masked_fill(~alive, patches).sort(dim=1).values
        return StagedResult(states, order[:, :keep], grids + read, kept, scales)

    def _first_stage(self, x: Tensor, prefix: int, keep: int) -> tuple[Decision, list[Tensor]]:
        """Blocks before the first decision on complete images, and the decision."""
        batch, length, width = x.shape
        rows = torch.arange(batch * length, device=x.device).view(batch, length)
        alive = torch.ones(batch, length - prefix, dtype=torch.bool, device=x.device)
        lengths = torch.full((batch,), length, device=x.device)
        packing = Packing(rows.view(-1), rows, lengths)
        records = None
        if self.read_blocks:
            pointer = torch.arange(length - prefix, device=x.device).expand(batch, -1)
            nothing = x.new_zeros(batch, length - prefix, width)
            records = Records(pointer, nothing, nothing[..., 0])
        shape = Shape(batch * length, length, True)
        states, grids = self._blocks(range(1, self.layers[0]), x.reshape(-1, width), packing, shape, prefix, records, 0)
        return self._decide(0, states, packing, alive, prefix, keep, records), grids

    def _packed_stage(
        self, before: Decision, shape: Shape, number: int, prefix: int, keep: int
    ) -> tuple[Decision, list[Tensor]]:
        """From one decision to the next on packed rows; `number` is that of the coming decision, from 0."""
        states, packing, records = self._resume(before, shape, self.layers[number - 1], prefix)
        grids = self._read(self.layers[number - 1], states, packing, prefix, records, number)
        between = range(self.layers[number - 1] + 1, self.layers[number])
        states, read = self._blocks(between, states, packing, shape, prefix, records, number)
        return self._decide(number, states, packing, before.alive, prefix, keep, records), grids + read

    def _last_stage(self, before: Decision, shape: Shape, prefix: int) -> tuple[Tensor, list[Tensor]]:
        """All blocks after the last decision, on a rectangle again."""
        number = len(self.layers)
        states, packing, records = self._resume(before, shape, self.layers[-1], prefix)
        grids = self._read(self.layers[-1], states, packing, prefix, records, number)
        rest = range(self.layers[-1] + 1, len(self.vit.blocks) + 1)
        states, read = self._blocks(rest, states, packing, shape, prefix, records, number)
        return states.view(len(before.counts), shape.longest, -1), grids + read

    def _blocks(
        self,
        layers: range,
        states: Tensor,
        packing: Packing,
        shape: Shape,
        prefix: int,
        records: Records | None,
        removals: int,
    ) -> tuple[Tensor, list[Tensor]]:
        grids: list[Tensor] = []
        for layer in layers:
            block = self.vit.blocks[layer - 1]
            hidden = block.norm1(states)
            states = _finish(block, states, hidden, project_all(block.attn, hidden), packing, shape)
            grids += self._read(layer, states, packing, prefix, records, removals)
        return states, grids

    def _decide(
        self,
        number: int,
        states: Tensor,
        packing: Packing,
        alive: Tensor,
        prefix: int,
        keep: int,
        records: Records | None,
    ) -> Decision:
        """Scores, budget and ranking of a pruning block, and the records of what it removes (Eq. 1, Alg. 1, Alg. 2)."""
        block, controller = self.vit.blocks[self.layers[number] - 1], self.reducer.controller
        register = packing.row[:, prefix - 1]
        hidden = block.norm1(states)
        keys = project(block.attn, hidden, "k")
        state = states.index_select(0, register)
        query = project(block.attn, hidden.index_select(0, register), "q")
        image = (packing.position // packing.row.shape[1]).clamp(max=len(alive) - 1)  # spare rows are nobody's
        scores = ragged_register_scores(query, keys, image)
        on_patches = scores[packing.row[:, prefix:]]
        counts = alive.sum(dim=1)
        allocation = self._allocate(number, controller, state, counts, keep)
        chosen = select(on_patches, allocation.removals, alive)
        scale = None
        if records is not None:
            fixed = torch.full_like(counts, 1.0 if self.scale is None else self.scale, dtype=torch.float32)
            scale = controller.recovery_scale(state) if self.scale is None else fixed
            records = _record(records, states, keys, packing.row[:, prefix:], alive, chosen, scale)
        return Decision(states, hidden, keys, packing.row, chosen, counts - allocation.removals, records, scale)

    def _allocate(self, number: int, controller: Any, state: Tensor, counts: Tensor, keep: int) -> Allocation:
        budget, settings = counts - keep, self.reducer.settings
        if number == len(self.layers) - 1:
            return allocate(None, budget, counts, last=True)
        if settings.schedule is not None:
            patches = self.vit.patch_embed.num_patches
            given = split_by_shares(settings.schedule, patches - keep)[number]
            return settle_proposal(torch.full_like(budget, given, dtype=torch.float32), budget, counts)
        return allocate(controller.share_logit(state), budget, counts, last=False)

    def _resume(
        self, before: Decision, shape: Shape, layer: int, prefix: int
    ) -> tuple[Tensor, Packing, Records | None]:
        """Packs what stays and runs the rest of the pruning block on it."""
        packing = pack(before.alive, prefix, shape)
        last = before.row.numel() - 1
        rows = before.row.reshape(-1)[packing.position.clamp(max=last)]
        states, hidden, keys = (part.index_select(0, rows) for part in (before.x, before.hidden, before.keys))
        block = self.vit.blocks[layer - 1]
        operands = project(block.attn, hidden, "q"), keys, project(block.attn, hidden, "v")
        return _finish(block, states, hidden, operands, packing, shape), packing, before.records

    def _read(
        self, layer: int, states: Tensor, packing: Packing, prefix: int, records: Records | None, removals: int
    ) -> list[Tensor]:
        """The complete grid at a read point (Eq. 3, Alg. S3); nothing elsewhere."""
        if layer not in self.read_blocks or records is None:
            return []
        grid = states[packing.row[:, prefix:]]
        if removals == 0:
            return [grid]
        end = resolve_pointers(records.pointer, links=removals - 1)[..., None].expand_as(grid)
        return [grid.gather(1, end) + (records.scale[..., None] * records.offset).to(grid.dtype)]


def capacity(lengths: list[int], complete: int) -> Shape:
    """The packed shape of images of these lengths, of `complete` rows before anything was removed."""
    grain = max(1, int(complete * GRAIN))
    fine = max(1, int(complete / len(lengths) * GRAIN))
    total, longest = sum(lengths), max(lengths)
    return Shape(-(-total // grain) * grain, -(-longest // fine) * fine, False)


def pack(alive: Tensor, prefix: int, shape: Shape) -> Packing:
    """Rows of the prefix and of the patches that are alive, image after image, in `shape.capacity` rows.

    Args:
        alive: `(B, N)`, bool.
        prefix: rows in front of each image's patches.
        shape: of the packed matrix.
    """
    whole = torch.cat([alive.new_ones(len(alive), prefix), alive], dim=1)
    there = whole.view(-1)
    row = there.cumsum(0) - 1
    places = torch.arange(there.numel(), device=alive.device)
    position = torch.full((shape.capacity + 1,), there.numel(), device=alive.device)
    position = position.scatter(0, torch.where(there, row, shape.capacity), places)[: shape.capacity]
    lengths = whole.sum(dim=1)
    ragged = None if shape.exact else _ragged(position // whole.shape[1], lengths, shape)
    return Packing(position, row.clamp(min=0).view_as(whole), lengths, ragged)


def _ragged(image: Tensor, lengths: Tensor, shape: Shape) -> Ragged:
    starts = lengths.cumsum(0) - lengths
    ends = torch.cat([starts, lengths.sum()[None], starts.new_full((1,), shape.capacity)]).int()
    columns = torch.arange(shape.longest, device=image.device)
    image = image.clamp(max=len(lengths) - 1)
    place = (torch.arange(shape.capacity, device=image.device) - starts[image]).clamp(max=shape.longest - 1)
    cells = (starts[:, None] + columns).clamp(max=shape.capacity - 1)
    seen = (columns < lengths[:, None])[:, None, None]
    return Ragged(ends, cells, seen, image * shape.longest + place)


def _finish(
    block: Any, states: Tensor, hidden: Tensor, operands: tuple[Tensor, Tensor, Tensor], packing: Packing, shape: Shape
) -> Tensor:
    """Attention, projection and MLP of a block on packed rows."""
    out = _attend(*operands, packing, shape)
    states = states + block.ls1(project_back(block.attn, hidden, out))
    return states + block.ls2(apply_mlp(block.mlp, block.norm2(states)))


def _attend(query: Tensor, key: Tensor, value: Tensor, packing: Packing, shape: Shape) -> Tensor:
    if shape.exact:
        batch = len(packing.lengths)
        query, key, value = (part.unflatten(0, (batch, -1)).transpose(1, 2) for part in (query, key, value))
        return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(shape.capacity, -1)
    assert packing.ragged is not None
    ends, cells, seen, back = packing.ragged
    if query.is_cuda and query.dtype in (torch.float16, torch.bfloat16):
        longest = max(shape.longest, shape.capacity - len(packing.lengths))  # the spare rows are a sequence too
        packed = varlen_attn(query, key, value, ends, ends, longest, longest)
        assert isinstance(packed, Tensor)
        return packed.flatten(1)
    query, key, value = (part[cells].transpose(1, 2) for part in (query, key, value))
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    return out.transpose(1, 2).flatten(0, 1).index_select(0, back).flatten(1)


def _record(
    records: Records, states: Tensor, keys: Tensor, rows: Tensor, alive: Tensor, chosen: Tensor, scale: Tensor
) -> Records:
    """Stand-ins and offsets of what a block removes, written into the buffers by mask (Eq. 2, Alg. S3)."""
    removed = alive & ~chosen
    unit = F.normalize(keys.flatten(1).float(), dim=-1, eps=EPSILON)[rows]
    at_once = max(1, MATRIX_BYTES // (4 * rows.shape[1]))
    stand_in = torch.cat([_nearest(some, unit, chosen) for some in unit.split(at_once, dim=1)], dim=1)
    grid = states[rows]
    offset = grid - grid.gather(1, stand_in[..., None].expand_as(grid))
    return Records(
        torch.where(removed, stand_in, records.pointer),
        torch.where(removed[..., None], offset, records.offset),
        torch.where(removed, scale[:, None].to(records.scale.dtype), records.scale),
    )


def _nearest(some: Tensor, unit: Tensor, chosen: Tensor) -> Tensor:
    """The chosen position with the largest cosine, the lowest of those within `TIE` (Eq. 2)."""
    with torch.autocast(some.device.type, enabled=False):
        similarity = torch.bmm(some, unit.transpose(1, 2))
    similarity = similarity.masked_fill(~chosen[:, None], float("-inf"))
    return (similarity >= similarity.amax(dim=2, keepdim=True) - TIE).to(torch.uint8).argmax(dim=2)
