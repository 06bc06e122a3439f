"""Merging of tokens, without the rule that says which: what ToMe, DiffRate and ALGM share.

A merged token takes the place, and bears the original index, of the one patch that the others are merged into. How many
patches it stands for and which token holds each input position are kept beside the sequence (`Merged`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tap.encoder.layout import on_device
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens

_MERGED = "merged"


@dataclass(frozen=True)
class Plan:
    """Which patches stay, in which order, and which are merged into which.

    Columns are those of the padded patch grid, before ("old", N of them) and after the merge ("new", N').

    Attributes:
        order: old column of every new one `(B, N')`; where an image has fewer, its last one is repeated.
        counts: new patches of each image, on the host.
        source: old columns that are merged into others `(B, R)`.
        target: new column that each of them goes into `(B, R)`.
        used: which of the R columns are in use `(B, R)`, bool; None for all.
    """

    order: Tensor
    counts: tuple[int, ...]
    source: Tensor
    target: Tensor
    used: Tensor | None = None

    def hits(self) -> Tensor:
        """1 where a source (last axis) goes into a new column `(B, N', R)`, float32.

        Sums over sources are products with it: in a fixed order, where scattered additions on a GPU have none.
        """
        columns = torch.arange(self.order.shape[1], device=self.order.device)
        hits = self.target.unsqueeze(1) == columns[:, None]
        return (hits if self.used is None else hits & self.used.unsqueeze(1)).to(torch.float32)

    def column_of(self, old: int) -> Tensor:
        """New column of each of `old` old columns `(B, old)`; -1 for those that the plan gives no place."""
        new = torch.arange(self.order.shape[1], device=self.order.device).expand_as(self.order)
        last = on_device(self.counts, self.order.device)[:, None] - 1
        column = self.order.new_full((len(self.order), old), -1).scatter_(1, self.order, torch.minimum(new, last))
        target = (
            self.target if self.used is None else torch.where(self.used, self.target, column.gather(1, self.source))
        )
        return column.scatter(1, self.source, target)


@dataclass(frozen=True)
class Merged:
    """What the tokens of a sequence stand for.

    Attributes:
        size: patches in each token `(B, N)`, float32, on the padded grid (a weight, for methods that scale it).
        holder: column of the token that holds each input position `(B, N_1)`; None where nobody will ask.
    """

    size: Tensor
    holder: Tensor | None

    @classmethod
    def of(cls, tokens: Tokens, state: ForwardState) -> Merged:
        """The present groups of a forward pass: single patches until something was merged."""
        found = state.memory.get(_MERGED)
        if found is not None:
            return found
        size = torch.ones(tokens.index.shape, dtype=torch.float32, device=tokens.x.device)
        asked = state.recovery is not None or state.trace is not None
        return cls(size, tokens.index if asked else None)

    def keep(self, state: ForwardState) -> None:
        """Makes these the groups of the forward pass."""
        state.memory[_MERGED] = self

    def bias(self, tokens: Tokens) -> Tensor:
        """Proportional attention: the logarithm of each row's size `(T,)`, 0 for prefix rows."""
        layout, logarithm = tokens.layout, self.size.log()
        if layout.valid is None:
            return F.pad(logarithm, (layout.prefix, 0)).reshape(-1)
        return logarithm.new_zeros(layout.rows).index_copy(0, layout.patch_rows, layout.real_cells(logarithm))


def merge(tokens: Tokens, plan: Plan, weight: Tensor | None = None) -> Tokens:
    """Carries a plan out: every new token is the weighted mean of its members, in float32 at least.

    Args:
        tokens: the sequence.
        plan: what becomes of it.
        weight: weight of every old column `(B, N)`; None for equal weights.
    """
    merged = tokens.pick(plan.order, plan.counts)
    if plan.source.shape[1] == 0:
        return merged
    hits = plan.hits()
    if weight is None:
        own, theirs = torch.ones_like(plan.order, dtype=hits.dtype), hits
    else:
        own, theirs = weight.gather(1, plan.order), hits * weight.gather(1, plan.source).unsqueeze(1)
    total = own + theirs.sum(dim=2)
    own, theirs = own / total, theirs / total.unsqueeze(2)
    source = tokens.x.index_select(0, tokens.layout.grid_rows.gather(1, plan.source).reshape(-1))
    source = source.view(*plan.source.shape, -1)
    dtype = torch.promote_types(tokens.x.dtype, torch.float32)
    prefix, layout = tokens.layout.prefix, merged.layout
    with torch.autocast(tokens.x.device.type, enabled=False):
        if layout.uniform:
            kept = merged.rectangle.to(dtype) * F.pad(own, (prefix, 0), value=1.0).to(dtype).unsqueeze(2)
            theirs = F.pad(theirs, (0, 0, prefix, 0)).to(dtype)
            return merged.with_states(torch.baddbmm(kept, theirs, source.to(dtype)).to(tokens.x.dtype))
        kept = merged.grid(merged.x).to(dtype) * own.to(dtype).unsqueeze(2)
        grid = torch.baddbmm(kept, theirs.to(dtype), source.to(dtype)).to(tokens.x.dtype)
    return merged.with_states(merged.x.index_copy(0, layout.patch_rows, layout.real_cells(grid)))


def regroup(groups: Merged, plan: Plan, added: Tensor | None = None) -> Merged:
    """The groups after a merge.

    Args:
        groups: those before.
        plan: what was merged.
        added: what each source adds to the size of its target `(B, R)`; None for its own size.
    """
    added = groups.size.gather(1, plan.source) if added is None else added
    size = groups.size.gather(1, plan.order) + (plan.hits() * added.unsqueeze(1)).sum(dim=2)
    holder = groups.holder
    if holder is not None:
        holder = plan.column_of(groups.size.shape[1]).gather(1, holder)
    return Merged(size, holder)


def note_merge(layer: int, before: Tokens, after: Tokens, plan: Plan, state: ForwardState) -> None:
    """Writes a merge into the trace, if there is one: what is left, and where the rest has gone."""
    state.note(layer, before, after)
    if state.trace is None:
        return
    state.trace.record_merge(layer, before, after, plan.column_of(before.index.shape[1]))


def copy_to_positions(tokens: Tokens, state: ForwardState) -> Tensor:
    """Native dense readout of merging methods: each input position gets the token that holds it `(B, N_1, d)`."""
    holder = Merged.of(tokens, state).holder
    assert holder is not None
    rows = tokens.layout.grid_rows.gather(1, holder)
    return tokens.x.index_select(0, rows.reshape(-1)).view(*holder.shape, -1)


@dataclass(frozen=True)
class Bipartite:
    """Tokens in turn as candidates and as targets, and each candidate's most similar target.

    Attributes:
        candidates: columns of the padded grid that may leave `(A,)`.
        targets: the other columns `(C,)`.
        similarity: cosine of each candidate with its target `(B, A)`, float32; minus infinity where there is none.
        choice: place of that target among `targets` `(B, A)`.
        valid: which columns hold a patch `(B, N)`; None for all.
    """

    candidates: Tensor
    targets: Tensor
    similarity: Tensor
    choice: Tensor
    valid: Tensor | None

    @classmethod
    def match(cls, metric: Tensor, prefix: int, valid: Tensor | None = None) -> Bipartite:
        """Pairs tokens by their place in the whole sequence: even places are candidates, odd ones targets.

        Prefix tokens count in the places but take no part.

        Args:
            metric: features of the patches in sequence order `(B, N, c)`.
            prefix: rows in front of them.
            valid: which columns hold a patch `(B, N)`; None for all.
        """
        columns = torch.arange(metric.shape[1], device=metric.device)
        candidates, targets = columns[prefix % 2 :: 2], columns[1 - prefix % 2 :: 2]
        if len(targets) == 0:  # a single patch
            alone = metric.new_full((len(metric), len(candidates)), float("-inf"), dtype=torch.float32)
            return cls(candidates, targets, alone, torch.zeros_like(alone, dtype=torch.int64), valid)
        with torch.no_grad(), torch.autocast(metric.device.type, enabled=False):
            unit = F.normalize(metric.to(torch.float32), dim=-1, eps=1e-12)
            cosine = unit[:, candidates] @ unit[:, targets].transpose(1, 2)
            if valid is not None:
                cosine = cosine.masked_fill(~valid[:, targets].unsqueeze(1), float("-inf"))
                cosine = cosine.masked_fill(~valid[:, candidates].unsqueeze(2), float("-inf"))
            similarity, choice = cosine.max(dim=2)
        return cls(candidates, targets, similarity, choice, valid)

    def plan(self, removals: Sequence[int], counts: Sequence[int], prefix: int) -> Plan:
        """Merges the most similar candidates of each image into their targets; ties to the lower column.

        What is left are the other candidates, then all targets. The candidates are in sequence order; only without any
        prefix token are they in order of decreasing similarity, as in ToMe's public code. An image with nothing to
        merge stays as it is.

        Args:
            removals: pairs to merge in each image, on the host.
            counts: patches of each image, on the host.
            prefix: rows in front of the patches.
        """
        batch, device = len(self.similarity), self.similarity.device
        most = max(removals)
        edge = self.similarity.argsort(dim=1, descending=True, stable=True)
        places = torch.arange(edge.shape[1], device=device).expand_as(edge)
        removed = places < on_device(removals, device)[:, None]  # in order of similarity
        if prefix:
            removed = torch.zeros_like(removed).scatter(1, edge, removed)
            candidates = self.candidates.expand(batch, -1)
        else:
            candidates = self.candidates[edge]
        columns = torch.cat([candidates, self.targets.expand(batch, -1)], dim=1)
        gone = F.pad(removed, (0, len(self.targets)))
        if self.valid is not None:
            gone = gone | ~self.valid.gather(1, columns)
        left = [count - removal for count, removal in zip(counts, removals, strict=True)]
        new = torch.arange(max(left), device=device).expand(batch, -1)
        new = torch.minimum(new, on_device(left, device)[:, None] - 1)
        place = gone.to(torch.uint8).argsort(dim=1, stable=True)  # those that stay first, each group in its order
        # Targets stay, all of them, behind the candidates that stay.
        first = (~gone[:, : len(self.candidates)]).sum(dim=1, keepdim=True)
        best = edge[:, :most]
        used = (
            None
            if min(removals) == most
            else torch.arange(most, device=device).expand(batch, -1) < removed.sum(dim=1, keepdim=True)
        )
        order = columns.gather(1, place.gather(1, new))
        if not min(removals):
            order = torch.where(on_device(removals, device)[:, None] == 0, new, order)
        return Plan(
            order,
            tuple(left),
            self.candidates[best],
            first + self.choice.gather(1, best),
            used,
        )
