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

from tap.core.budget import Allocation, allocate, keep_count, settle_proposal, split_by_shares
from tap.core.matching import EPSILON, MATRIX_BYTES, TIE
from tap.core.recovery import resolve_pointers
from tap.core.selection import ragged_register_scores, select
from tap.encoder.blocks import project, project_all
from tap.encoder.staged_attention import Grid, finish, grid_of
from tap.encoder.staged_packing import Packing, Shape, capacity, pack
from tap.encoder.vitdet import on_grid
from tap.errors import UserError

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


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
        vit: timm `VisionTransformer`, plain or ViTDet's trunk.
        reducer: TAP as the paper has it.
        read_blocks: after which a dense head reads.
        learned: whether recovery scales are the register's; else `scale` for all.
        scale: a fixed recovery scale.
        compiler: applied to each stage, such as `functools.partial(torch.compile, fullgraph=True)`.

    Raises:
        UserError: places beyond the grid's edge act as keys, or the encoder decides otherwise than by the register.
    """

    def __init__(
        self, vit: Any, reducer: Any, read_blocks: tuple[int, ...], scale: float | None, compiler: Compile | None = None
    ) -> None:
        settings: Any = reducer.settings
        self.on_grid = on_grid(vit)
        if self.on_grid and any(block.attn.padded for block in vit.blocks):
            raise UserError("execution: 'staged' masks places beyond the grid's edge; use 'plain' for pad_windows")
        if not hasattr(reducer, "controller") or settings.selection is not None or settings.estimator is not None:
            raise UserError("execution: 'staged' is for TAP with the evolving register; use 'plain' for other methods")
        self.vit, self.reducer, self.read_blocks, self.scale = vit, reducer, read_blocks, scale
        self.layers: tuple[int, ...] = settings.layers
        sides = {block.attn.side for block in vit.blocks} - {None} if self.on_grid else set()
        self.side: int | None = sides.pop() if sides else None
        self._grids: dict[tuple[tuple[int, int], torch.device], Grid] = {}
        wrap = compiler or (lambda stage: stage)
        self._first, self._packed = wrap(self._first_stage), wrap(self._packed_stage)
        self._last = wrap(self._last_stage)

    def __call__(self, x: Tensor, size: tuple[int, int]) -> StagedResult:
        """Runs all blocks on embedded images; one host read between two stages.

        Args:
            x: `(B, P + N, d)`, register included.
            size: patch rows and columns.
        """
        batch, length, _ = x.shape
        patches, grid = size[0] * size[1], self._grid(size, x.device)
        prefix, keep = length - patches, keep_count(patches, self.reducer.keep_rate)
        decision, grids = self._first(x, prefix, keep, grid)
        kept, scales = {self.layers[0]: decision.alive}, {}
        for number, layer in enumerate(self.layers):
            if decision.scale is not None:
                scales[layer] = decision.scale
            if number == len(self.layers) - 1:
                shape = Shape(batch * (prefix + keep), prefix + keep, True)
                states, read = self._last(decision, shape, prefix, grid)
                break
            counts = decision.counts.tolist()  # the one host read between two stages
            shape = capacity([count + prefix for count in counts], batch * length)
            decision, read = self._packed(decision, shape, number + 1, prefix, keep, grid)
            kept[self.layers[number + 1]] = decision.alive
            grids += read
        alive = decision.alive
        order = torch.arange(patches, device=x.device).masked_fill(~alive, patches).sort(dim=1).values
        return StagedResult(states, order[:, :keep], grids + read, kept, scales)

    def _grid(self, size: tuple[int, int], device: torch.device) -> Grid | None:
        """Places of the patches, made once for a grid; None where none count."""
        if self.on_grid and (size, device) not in self._grids:
            self._grids[size, device] = grid_of(size, self.side, device)
        return self._grids.get((size, device))

    def _placed(self, packing: Packing, prefix: int) -> Packing:
        return packing.placed(prefix) if self.on_grid else packing

    def _first_stage(self, x: Tensor, prefix: int, keep: int, grid: Grid | None) -> tuple[Decision, list[Tensor]]:
        """Blocks before the first decision on complete images, and the decision."""
        batch, length, width = x.shape
        rows = torch.arange(batch * length, device=x.device).view(batch, length)
        alive = torch.ones(batch, length - prefix, dtype=torch.bool, device=x.device)
        lengths = torch.full((batch,), length, device=x.device)
        packing = self._placed(Packing(rows.view(-1), rows, lengths), prefix)
        records = None
        if self.read_blocks:
            pointer = torch.arange(length - prefix, device=x.device).expand(batch, -1)
            nothing = x.new_zeros(batch, length - prefix, width)
            records = Records(pointer, nothing, nothing[..., 0])
        shape = Shape(batch * length, length, True)
        states, grids = self._blocks(
            range(1, self.layers[0]), x.reshape(-1, width), packing, shape, prefix, records, 0, grid
        )
        return self._decide(0, states, packing, alive, prefix, keep, records), grids

    def _packed_stage(
        self, before: Decision, shape: Shape, number: int, prefix: int, keep: int, grid: Grid | None
    ) -> tuple[Decision, list[Tensor]]:
        """From one decision to the next on packed rows; `number` is that of the coming decision, from 0."""
        states, packing, records = self._resume(before, shape, self.layers[number - 1], prefix, grid)
        grids = self._read(self.layers[number - 1], states, packing, prefix, records, number)
        between = range(self.layers[number - 1] + 1, self.layers[number])
        states, read = self._blocks(between, states, packing, shape, prefix, records, number, grid)
        return self._decide(number, states, packing, before.alive, prefix, keep, records), grids + read

    def _last_stage(
        self, before: Decision, shape: Shape, prefix: int, grid: Grid | None
    ) -> tuple[Tensor, list[Tensor]]:
        """All blocks after the last decision, on a rectangle again."""
        number = len(self.layers)
        states, packing, records = self._resume(before, shape, self.layers[-1], prefix, grid)
        grids = self._read(self.layers[-1], states, packing, prefix, records, number)
        rest = range(self.layers[-1] + 1, len(self.vit.blocks) + 1)
        states, read = self._blocks(rest, states, packing, shape, prefix, records, number, grid)
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
        grid: Grid | None,
    ) -> tuple[Tensor, list[Tensor]]:
        grids: list[Tensor] = []
        for layer in layers:
            block = self.vit.blocks[layer - 1]
            hidden = block.norm1(states)
            states = finish(block, states, hidden, project_all(block.attn, hidden), packing, shape, grid)
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
        allocation = self._allocate(number, controller, state, counts, keep, alive.shape[1])
        chosen = select(on_patches, allocation.removals, alive)
        scale = None
        if records is not None:
            fixed = torch.full_like(counts, 1.0 if self.scale is None else self.scale, dtype=torch.float32)
            scale = controller.recovery_scale(state) if self.scale is None else fixed
            records = _record(records, states, keys, packing.row[:, prefix:], alive, chosen, scale)
        return Decision(states, hidden, keys, packing.row, chosen, counts - allocation.removals, records, scale)

    def _allocate(
        self, number: int, controller: Any, state: Tensor, counts: Tensor, keep: int, patches: int
    ) -> Allocation:
        budget, settings = counts - keep, self.reducer.settings
        if number == len(self.layers) - 1:
            return allocate(None, budget, counts, last=True)
        if settings.schedule is not None:
            given = split_by_shares(settings.schedule, patches - keep)[number]
            return settle_proposal(torch.full_like(budget, given, dtype=torch.float32), budget, counts)
        return allocate(controller.share_logit(state), budget, counts, last=False)

    def _resume(
        self, before: Decision, shape: Shape, layer: int, prefix: int, grid: Grid | None
    ) -> tuple[Tensor, Packing, Records | None]:
        """Packs what stays and runs the rest of the pruning block on it."""
        packing = self._placed(pack(before.alive, prefix, shape), prefix)
        last = before.row.numel() - 1
        rows = before.row.reshape(-1)[packing.position.clamp(max=last)]
        states, hidden, keys = (part.index_select(0, rows) for part in (before.x, before.hidden, before.keys))
        block = self.vit.blocks[layer - 1]
        operands = project(block.attn, hidden, "q"), keys, project(block.attn, hidden, "v")
        return finish(block, states, hidden, operands, packing, shape, grid), packing, before.records

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
