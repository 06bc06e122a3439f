"""What a dense head needs of removed patches: stand-in, offset and scale (Sec. Dense-feature recovery, Alg. S3).

The buffer lives beside the encoder. Nothing that it reconstructs enters a later block.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from tap.core.matching import cosine_stand_ins, random_stand_ins, spatial_stand_ins, top_score_stand_in
from tap.core.recovery import reconstruct, removal_offset, resolve_pointers
from tap.encoder.layout import Layout, true_positions
from tap.encoder.tokens import Tokens

Matching = Literal["key", "token", "spatial", "score", "random", "final"]


@dataclass(frozen=True)
class RecoverySettings:
    """How removed positions are given back.

    Attributes:
        scale: `learned` (alpha from the register, Eq. 3) or one fixed alpha: 1 is the full offset, 0 the stand-in only.
        matching: how a stand-in is chosen (tab:matching-ablation): key cosine (the paper's), token cosine, nearest on
            the patch grid, the highest score, a seeded random survivor, or key cosine against the final survivors.
        zero_fill: give back zeros instead (recovery off).
        seed: seed of the random matching.
    """

    scale: Literal["learned"] | float = "learned"
    matching: Matching = "key"
    zero_fill: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Removal:
    """The records of one pruning layer, image by image and in ascending original index.

    The original index of a record is not stored: it is where the removal map holds the layer's number.

    Attributes:
        layer: the block, from 1.
        pointer: original index of each removed patch's stand-in `(R,)`, int32.
        offset: removed state minus stand-in state `(R, d)`.
        scale: recovery scale alpha of each image `(B,)`.
    """

    layer: int
    pointer: Tensor
    offset: Tensor
    scale: Tensor

    @property
    def bytes(self) -> int:
        """Storage of the records, as the paper's M_buffer counts it."""
        return sum(part.numel() * part.element_size() for part in (self.pointer, self.offset, self.scale))


@dataclass(frozen=True)
class _Split:
    """Columns of the padded grid that one removal keeps `(B, S)` and removes `(B, R)`, each ascending."""

    kept: Tensor
    kept_valid: Tensor | None
    removed: Tensor
    removed_valid: Tensor | None
    total: int

    @classmethod
    def of(cls, keep: Tensor, before: Layout, counts: Sequence[int]) -> _Split:
        removals = [old - new for old, new in zip(before.counts, counts, strict=True)]
        group = (~keep).to(torch.int8) if before.valid is None else (~keep).to(torch.int8) + (~before.valid)
        columns = group.argsort(dim=1, stable=True)  # kept, removed, padding
        survivors = Layout(0, tuple(counts), tuple(range(len(counts))), keep.device)
        gone = Layout(0, tuple(removals), survivors.order, keep.device)
        last = before.counts_tensor[:, None] - 1
        removed = torch.minimum(survivors.counts_tensor[:, None] + torch.arange(gone.width, device=keep.device), last)
        return cls(
            columns[:, : survivors.width], survivors.valid, columns.gather(1, removed), gone.valid, sum(removals)
        )

    def flat(self, values: Tensor) -> Tensor:
        """One value per removed patch `(total,)` from a padded `(B, R)` table."""
        if self.removed_valid is None:
            return values.reshape(-1)
        return values.reshape(-1).index_select(0, true_positions(self.removed_valid.reshape(-1), self.total))


@dataclass(frozen=True)
class _Candidates:
    """Everything a pruning layer knows when it removes patches."""

    layer: int
    tokens: Tokens
    split: _Split
    features: Tensor  # (T, c), the matching space
    scores: Tensor | None  # (B, N)
    scale: Tensor  # (B,)


class RecoveryBuffer:
    """Removal records of one forward pass, and the dense grids that are made of them.

    Args:
        settings: how positions are given back.
        grid: patch rows and columns of the input.
        sample_ids: `(B,)`, key of the random matching.
    """

    def __init__(self, settings: RecoverySettings, grid: tuple[int, int], sample_ids: Tensor) -> None:
        self.settings = settings
        self.grid = grid
        self.sample_ids = sample_ids
        self.records: list[Removal] = []
        self.removed_at = sample_ids.new_zeros(len(sample_ids), grid[0] * grid[1], dtype=torch.int8)
        self._waiting: list[_Candidates] = []

    @property
    def bytes(self) -> int:
        """Stored bytes of all records: R (d b_s + b_p) + M b_s for every image."""
        return sum(record.bytes for record in self.records)

    def store(
        self,
        layer: int,
        tokens: Tokens,
        keep: Tensor,
        counts: Sequence[int],
        keys: Tensor,
        scale: Tensor | None = None,
        scores: Tensor | None = None,
    ) -> None:
        """Records what block `layer` is about to remove.

        Args:
            layer: the block, from 1.
            tokens: candidates, before the removal.
            keep: which patches of the padded grid stay `(B, N)`.
            counts: how many stay in each image, on the host.
            keys: projected keys of all rows `(T, H, d_h)`; their concatenation over heads is the matching space.
            scale: alpha of each image `(B,)`; read when the settings say `learned`.
            scores: selection scores `(B, N)`; read by the `score` matching only.
        """
        split = _Split.of(keep, tokens.layout, counts)
        if split.total == 0:
            return
        self.removed_at.view(-1)[self._positions(split, tokens.index)] = layer
        if self.settings.zero_fill:
            return
        if self.settings.scale != "learned":
            scale = torch.full((len(counts),), self.settings.scale, device=tokens.x.device)
        assert scale is not None, "a learned recovery scale needs a register"
        features = tokens.x if self.settings.matching == "token" else keys.flatten(1)
        candidates = _Candidates(layer, tokens, split, features.detach(), scores, scale)
        if self.settings.matching == "final":
            self._waiting.append(candidates)
        else:
            self.records.append(self._link(candidates))

    def with_scale(self, alpha: float) -> RecoveryBuffer:
        """The same removals, pointers and offsets with another recovery scale for all images (Sec. Paired recovery)."""
        other = copy(self)
        other.records = [replace(record, scale=torch.full_like(record.scale, alpha)) for record in self.records]
        other._waiting = [replace(late, scale=torch.full_like(late.scale, alpha)) for late in self._waiting]
        return other

    def reconstruct(self, tokens: Tokens) -> Tensor:
        """The complete grid at a read point, from what was removed up to it (Alg. S3).

        Args:
            tokens: the states after the block that is read.

        Returns:
            `(B, N_1, d)` in original patch order.
        """
        survivors = tokens.x.index_select(0, tokens.layout.patch_rows)
        batch, patches = self.removed_at.shape
        if len(survivors) == batch * patches:
            return survivors.view(batch, patches, -1)
        origin = torch.arange(batch, device=survivors.device)[:, None] * patches
        index = tokens.positions(patches)
        records = [self._link(_against(late, tokens, patches)) for late in self._waiting] or self.records
        positions, rows = [index], [survivors]
        if records:
            where = [
                true_positions(self.removed_at.view(-1) == record.layer, len(record.pointer)) for record in records
            ]
            endpoint = self._endpoints(records, where, origin)
            row = torch.zeros(batch * patches, dtype=torch.int64, device=index.device)
            row[index] = torch.arange(len(index), device=index.device)
            for record, position in zip(records, where, strict=True):
                stand_in = survivors.index_select(0, row[endpoint[position]])
                scale = record.scale.index_select(0, position // patches)
                rows.append(reconstruct(stand_in, record.offset, scale))
            positions += where
        grid = survivors.new_zeros(batch * patches, survivors.shape[1])
        return grid.index_copy(0, torch.cat(positions), torch.cat(rows)).view(batch, patches, -1)

    def _endpoints(self, records: Sequence[Removal], where: Sequence[Tensor], origin: Tensor) -> Tensor:
        """Where each pointer chain ends, as flat positions `(B * N_1,)`: at most M - 1 links beyond the first."""
        batch, patches = self.removed_at.shape
        pointer = torch.arange(patches, device=origin.device).repeat(batch)
        for record, position in zip(records, where, strict=True):
            pointer[position] = record.pointer.long()
        return (resolve_pointers(pointer.view(batch, patches), links=len(records) - 1) + origin).view(-1)

    def _positions(self, split: _Split, index: Tensor) -> Tensor:
        origin = torch.arange(len(index), device=index.device)[:, None] * self.removed_at.shape[1]
        return split.flat(origin + index.gather(1, split.removed))

    def _link(self, candidates: _Candidates) -> Removal:
        """Matches removed patches to stand-ins and takes the offsets (Eq. 2)."""
        tokens, split = candidates.tokens, candidates.split
        columns = split.kept.gather(1, self._match(candidates))
        removed_rows = split.flat(tokens.layout.grid_rows.gather(1, split.removed))
        stand_in_rows = split.flat(tokens.layout.grid_rows.gather(1, columns))
        offset = removal_offset(tokens.x.index_select(0, removed_rows), tokens.x.index_select(0, stand_in_rows))
        dtype = _activation_dtype(tokens.x)
        pointer = split.flat(tokens.index.gather(1, columns)).int()
        return Removal(candidates.layer, pointer, offset.to(dtype), candidates.scale.to(dtype))

    def _match(self, candidates: _Candidates) -> Tensor:
        """Column among the kept patches of each removed patch's stand-in `(B, R)`."""
        tokens, split, rule = candidates.tokens, candidates.split, self.settings.matching
        removed, kept = tokens.index.gather(1, split.removed), tokens.index.gather(1, split.kept)
        if rule == "spatial":
            return spatial_stand_ins(removed, kept, self.grid[1], split.kept_valid)
        if rule == "random":
            present = torch.ones_like(kept, dtype=torch.bool) if split.kept_valid is None else split.kept_valid
            patches = self.removed_at.shape[1]
            return random_stand_ins(self.settings.seed, self.sample_ids, candidates.layer, removed, patches, present)
        if rule == "score":
            assert candidates.scores is not None, "the score matching needs selection scores"
            return top_score_stand_in(candidates.scores.gather(1, split.kept), removed.shape[1], split.kept_valid)
        features = [
            candidates.features[tokens.layout.grid_rows.gather(1, columns)] for columns in (split.removed, split.kept)
        ]
        return cosine_stand_ins(features[0], features[1], split.kept_valid)


def _against(candidates: _Candidates, tokens: Tokens, patches: int) -> _Candidates:
    """The same removal with the survivors of a later read point as its stand-ins (direct final-survivor match)."""
    earlier = candidates.tokens.index
    column = torch.zeros(len(earlier), patches, dtype=torch.int64, device=earlier.device)
    # Padding repeats the index of the last patch, and its column with it, so that repeated writes agree.
    columns = torch.arange(earlier.shape[1], device=earlier.device)
    last = candidates.tokens.layout.counts_tensor[:, None] - 1
    column.scatter_(1, earlier, torch.minimum(columns.expand_as(earlier), last))
    split = replace(candidates.split, kept=column.gather(1, tokens.index), kept_valid=tokens.layout.valid)
    return replace(candidates, split=split)


def _activation_dtype(x: Tensor) -> torch.dtype:
    """The 16-bit type under autocast, else the type of the states (Sec. Parameter and recovery-buffer cost)."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype
