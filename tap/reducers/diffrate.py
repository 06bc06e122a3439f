"""DiffRate: prunes by class attention, then merges by token cosine; how many of each is searched by gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tap.core.budget import keep_count
from tap.core.selection import select
from tap.encoder.attention import class_attention, soft_attention
from tap.encoder.blocks import add_attended, add_attention, project_all, run_block, run_mlp
from tap.encoder.layout import true_positions
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import FixedSchedule, PartRates, Reducer, ReducerSettings, TrainingPass
from tap.reducers.costs import BlockCounts, Cost, class_row, merging
from tap.reducers.merging import Merged, Plan, merge, note_merge, regroup
from tap.reducers.registry import register

METHOD = Method(readout="common")
ROW = Row(
    "DiffRate",
    tasks=("cls", "seg"),
    order=80,
    in_paper=True,
    origin=Origin(
        "OpenGVLab/DiffRate",
        "91ae3e3",
        path="searched counts of pruning and merging",
        readout="no native readout, common recovery",
        adapted=(
            "the final count is pinned to K",
            "search as a share of the common budget, from counts that end at K, to the cost of the common schedule",
        ),
    ),
)


_SEARCH, _COUNTS = "diffrate search", "diffrate counts"
_VIT_B = 17.56
"""GMAC of a dense ViT-B at 224, in which the public weight of the cost term is meant."""
_SMALLEST = 1e-6
"""Sizes stay positive where a merged token points away from the one it goes into."""


@dataclass
class Search:
    """What a pass of the search carries from block to block.

    Attributes:
        kept: expected counts `(2, L - 1)`: patches left by pruning and by merging in block 2 and on, rounded up, with
            the gradient of the expectation.
        counts: the same on the host.
        probability: of each rank to be kept by each decision `(2, L - 1, N)`.
        mask: 1 for patches that are left, 0 for others `(B, N)`, with gradients.
        size: weight of each patch in the attention `(B, N)`.
        present: patches that are left.
    """

    kept: Tensor
    counts: list[list[int]]
    probability: Tensor
    mask: Tensor
    size: Tensor
    present: int


@register(METHOD)
class DiffRate(Reducer):
    """Two counts per block, from block 2 on: how many patches pruning and how many merging leaves.

    In the search nothing is removed, patches are only masked, and the logits of the counts alone learn. Afterwards the
    counts are fixed; no block leaves fewer than K patches, and the last but one leaves K.
    """

    training_only = ("logits",)

    shares: Tensor
    """Expected share of the patches that pruning and merging leave `(2, L - 1)`, from the last step of the search."""

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(settings)
        if not settings.class_token:
            raise UserError("method: 'diffrate' ranks by the class token's attention; use a model with a class token")
        if settings.depth < 2:
            raise UserError("method: 'diffrate' leaves the first block as it is, so it needs a model with two at least")
        options = self.options
        fractions = 1.0 - torch.arange(options.candidates, dtype=torch.float64) / options.candidates
        path = initial_shares(settings.keep_rate, settings.depth)
        logits = torch.stack([_logits_with_mean(share, fractions) for share in path.flatten().tolist()])
        self.logits = nn.Parameter(logits.flatten().float())  # flat, so that no weight decay pulls at it
        self.register_buffer("shares", path.float())

    @property
    def searching(self) -> bool:
        """Whether the present step searches the counts."""
        searched = self.options.prune_counts is None and self.keep_rate < 1.0
        return self.training and searched and self.progress < self.options.search

    def rates(self) -> PartRates:
        """The logits alone learn during the search, everything else afterwards."""
        if self.searching:
            return PartRates(reducer=self.options.search_lr, backbone=0.0, head=0.0)
        return PartRates(reducer=0.0)

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Attends with every patch, then prunes and merges, then runs the MLP on what is left."""
        if layer == 1 or self.keep_rate == 1.0:
            return run_block(block, tokens)
        if self.searching:
            return self._search_block(layer, block, tokens, state)
        if _COUNTS not in state.memory:
            state.memory[_COUNTS] = self.counts(state.patches)
        pruned, merged = (counts[layer - 1] for counts in state.memory[_COUNTS])
        groups, present = Merged.of(tokens, state), tokens.layout.width
        hidden = block.norm1(tokens.x)
        query, keys, value = project_all(block.attn, hidden)
        bias = groups.bias(tokens)
        before = add_attention(block, tokens, hidden, query, keys, value, bias)
        if merged == present:
            state.note(layer, before, before)
            return run_mlp(block, before)
        batch, prefix = before.layout.batch, before.layout.prefix
        by_image = (batch, prefix + present)
        scores = class_attention(query.unflatten(0, by_image)[:, 0], keys.unflatten(0, by_image), bias.view(by_image))
        keep = select(scores[:, prefix:], before.layout.counts_tensor - merged)
        within = select(scores[:, prefix:], before.layout.counts_tensor - pruned)
        order = true_positions(keep.reshape(-1), batch * merged).view(batch, -1) % present
        source = true_positions((within & ~keep).reshape(-1), batch * (pruned - merged)).view(batch, -1) % present
        patches = before.rectangle[:, prefix:]
        similarity, target = _most_similar(_rows(patches, source), _rows(patches, order))
        plan = Plan(order, (merged,) * batch, source, target)
        if state.recovery is not None:
            state.recovery.store(layer, before, keep, plan.counts, keys, scores=scores[:, prefix:])
        tokens = merge(before, plan)
        groups = regroup(Merged(groups.size, None), plan, groups.size.gather(1, source) * similarity)
        Merged(groups.size.clamp(min=_SMALLEST), None).keep(state)
        note_merge(layer, before, tokens, plan, state)
        return run_mlp(block, tokens)

    def counts(self, patches: int) -> tuple[list[int], list[int]]:
        """Patches left by pruning and by merging in each block; K after the last but one.

        Raises:
            UserError: given counts do not end at K.
        """
        depth, final = self.settings.depth, keep_count(patches, self.keep_rate)
        if self.options.prune_counts is not None:
            given = [[*counts, *[patches] * depth][:depth] for counts in self._given()]
            prune, merge = given[0], given[1]
        else:
            prune, merge = ([patches, *(_ceil(share * patches) for share in row)] for row in self.shares.tolist())
            last = max(2, depth - 1)
            merge = [max(count, final) for count in merge[: last - 1]] + [final] * (depth - last + 1)
        left = patches
        for block in range(depth):
            prune[block] = min(left, max(prune[block], final))
            left = merge[block] = min(prune[block], merge[block])
        if left != final:
            raise UserError(f"options.diffrate: the counts end at {left} patches, but the keep rate asks for {final}")
        return prune, merge

    def _given(self) -> tuple[Sequence[int], Sequence[int]]:
        return self.options.prune_counts, self.options.merge_counts

    def losses(self, given: TrainingPass) -> dict[str, Tensor]:
        """The cost term of the search: weight x (GMAC - target)^2, with the target of the common schedule.

        GMAC are counted as if the dense model had those of ViT-B, so that the public weight means the same in every
        model.
        """
        search: Search | None = given.output.memory.get(_SEARCH)
        if search is None:
            return {}
        size = given.output.size
        patches, width = size[0] * size[1], self.settings.width
        fixed = embedding_and_head_macs(given.encoder.vit, patches, self.settings.num_classes or 0)
        everything = [patches] * self.settings.depth
        dense = fixed + block_macs(everything, everything, patches, width)
        common = everything[:]
        for layer, count in zip(self.settings.layers, FixedSchedule(self.settings).schedule(patches), strict=True):
            common[layer - 1 :] = [count] * (len(common) - layer + 1)
        target = fixed + block_macs(common, common, patches, width)
        unit = dense.item() / _VIT_B
        prune, merge = pinned(search.kept, keep_count(patches, self.keep_rate))
        cost = fixed + block_macs([patches, *prune], [patches, *merge], patches, width)
        return {"cost": self.options.flops_weight * ((cost - target.item()) / unit).square()}

    def _begin(self, tokens: Tokens, state: ForwardState) -> Search:
        """Expected counts and probabilities of all decisions, with the one host read of a search step."""
        candidates = torch.arange(self.options.candidates, 0, -1, device=tokens.x.device) * state.patches
        candidates = (candidates // self.options.candidates).clamp(min=1)
        probability = self.logits.float().view(2, self.settings.depth - 1, -1).softmax(dim=-1)
        expected = probability @ candidates.float()
        kept = round_up(expected)
        with torch.no_grad():
            self.shares.copy_(expected / state.patches)
        rank = torch.arange(state.patches, device=tokens.x.device)
        by_rank = probability @ (rank < candidates[:, None]).float()
        ones = torch.ones(tokens.index.shape, dtype=torch.float32, device=tokens.x.device)
        return Search(kept, kept.int().tolist(), by_rank, ones, ones, state.patches)

    def _search_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """The block with every patch still there: pruning and merging change masks, states and sizes only."""
        if _SEARCH not in state.memory:
            state.memory[_SEARCH] = self._begin(tokens, state)
        search: Search = state.memory[_SEARCH]
        layout = tokens.layout
        by_image, prefix = (layout.batch, -1), layout.prefix
        hidden = block.norm1(tokens.x)
        query, keys, value = (part.unflatten(0, by_image) for part in project_all(block.attn, hidden))
        policy, bias = F.pad(search.mask, (prefix, 0), value=1.0), F.pad(search.size.log(), (prefix, 0))
        out, weights = soft_attention(query, keys, value, policy, bias)
        tokens = add_attended(block, tokens, hidden, out)
        scores = weights[:, :, 0, prefix:].mean(dim=1).detach().masked_fill(search.mask.detach() < 0.5, -1.0)
        order = scores.argsort(dim=1, descending=True, stable=True)
        rank = torch.empty_like(order).scatter_(
            1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
        )
        prune, merge = (counts[layer - 2] for counts in search.counts)
        if prune < search.present:
            search.mask = search.mask * _marked(search.probability[0, layer - 2], prune, search.present)[rank]
        middle = min(search.present, prune)
        if merge < middle:
            tokens = self._search_merge(tokens, search, order[:, :merge], order[:, merge:middle])
            search.mask = search.mask * _marked(search.probability[1, layer - 2], merge, middle)[rank]
        search.present = min(middle, merge)
        return run_mlp(block, tokens)

    @staticmethod
    def _search_merge(tokens: Tokens, search: Search, kept: Tensor, merged: Tensor) -> Tokens:
        """Takes the mean into the kept patches and adds to their sizes; the merged ones stay, masked."""
        prefix, patches = tokens.layout.prefix, tokens.rectangle[:, tokens.layout.prefix :]
        theirs, own = _rows(patches, merged), _rows(patches, kept)
        similarity, target = _most_similar(theirs, own)
        plan = Plan(kept, (kept.shape[1],) * len(kept), merged, target)
        hits = plan.hits()
        mean = (own.float() + hits @ theirs.float()) / (1.0 + hits.sum(dim=2, keepdim=True))
        columns = kept.unsqueeze(2).expand_as(own)
        states = torch.cat([tokens.rectangle[:, :prefix], patches.scatter(1, columns, mean.to(patches.dtype))], dim=1)
        small = (search.size.gather(1, merged) * similarity).clamp(min=1.0)
        large = search.size.gather(1, kept).clamp(min=1.0) + (hits * small.unsqueeze(1)).sum(dim=2)
        search.size = search.size.scatter(1, merged, small).scatter(1, kept, large)
        return tokens.with_states(states)


def initial_shares(rate: float, depth: int) -> Tensor:
    """Where the search starts `(2, L - 1)`, float64: every block keeps the same share, half of it lost to pruning.

    The public search starts from equal logits, so that block 2 alone removes half of all patches, and needs three
    epochs of ImageNet to get away from there. This start has the wanted final count.
    """
    decisions = max(1, depth - 2)
    steps = torch.arange(1, depth, dtype=torch.float64).clamp(max=decisions)
    return torch.stack([rate ** ((steps - 0.5) / decisions), rate ** (steps / decisions)])


def _logits_with_mean(mean: float, values: Tensor) -> Tensor:
    """Logits of the distribution over `values` that is the most even one with a given mean."""
    low, high = -1e3, 1e3
    for _ in range(60):
        slope = 0.5 * (low + high)
        if float(((slope * values).softmax(dim=0) * values).sum()) < mean:
            low = slope
        else:
            high = slope
    return slope * (values - values.mean())


def round_up(expected: Tensor) -> Tensor:
    """The next whole number, with the gradient of the expectation."""
    return expected.ceil().detach() + (expected - expected.detach())


def pinned(kept: Tensor, final: int) -> Tensor:
    """Expected counts `(2, L - 1)` as `DiffRate.counts` takes them: none under K, and K from the last block but one on.

    What is K whatever the search finds has no gradient: the search cannot save anything there.
    """
    free = max(0, kept.shape[1] - 2)
    fixed = torch.full_like(kept[:, free:], final, requires_grad=False)
    return torch.cat([kept[:, :free].clamp(min=final), fixed], dim=1)


def block_macs(prune: Sequence[Tensor | int], merge: Sequence[Tensor | int], patches: int, width: int) -> Tensor:
    """GMAC of all blocks `()`, the class token included: attention on what enters, MLP on what is left.

    The gradient of a block reaches both of its counts, whichever is the smaller, and not those of earlier blocks.

    Args:
        prune, merge: patches left by both steps in each block; numbers, or `()` tensors with gradients.
        patches: patches of the image.
        width: d.
    """
    present = torch.tensor(patches + 1.0)
    total = torch.tensor(0.0)
    for pair in zip(prune, merge, strict=True):
        total = total + 4 * present * width**2 + 2 * present * present * width
        pruned, merged = (torch.as_tensor(count, dtype=torch.float32) for count in pair)
        least = torch.minimum(torch.minimum(pruned, merged) + 1, present).detach()
        present = least + (pruned - pruned.detach()) + (merged - merged.detach())
        total = total + 8 * present * width**2
    return total / 1e9


def embedding_and_head_macs(vit: Any, patches: int, classes: int) -> float:
    """GMAC of patch embedding and classifier, as the public code counts them."""
    return ((patches + 1) * vit.patch_embed.proj.weight.numel() + vit.embed_dim * classes) / 1e9


def _marked(probability: Tensor, kept: int, present: int) -> Tensor:
    """By rank: 0 from `kept` up to `present`, else 1, with the gradient of the probability to be kept `(N,)`."""
    hard = torch.ones_like(probability)
    hard[kept:present] = 0.0
    return hard + (probability - probability.detach())


def _most_similar(source: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Largest cosine of each source with a kept patch `(B, R)`, and the first column that has it."""
    with torch.no_grad(), torch.autocast(source.device.type, enabled=False):
        unit = (F.normalize(part.float(), dim=-1, eps=1e-12) for part in (source, kept))
        return (next(unit) @ next(unit).transpose(1, 2)).max(dim=2)


def _rows(patches: Tensor, columns: Tensor) -> Tensor:
    return patches.gather(1, columns.unsqueeze(2).expand(-1, -1, patches.shape[2]))


def _ceil(count: float) -> int:
    """Rounds up, except what is whole but for float32."""
    return math.ceil(count - 1e-4)


def _own_operations(given: BlockCounts) -> float:
    """The class token's attention; cosines of the merged patches, which are fewer than the removed ones."""
    if not given.removed:
        return 0.0
    patches = given.reducer.settings.patches or given.width
    pruned, merged = (counts[given.layer - 1] for counts in given.reducer.counts(patches))
    cosines = 2.0 * given.images * (pruned - merged) * merged * given.dim
    return class_row(given) + cosines + merging(given, pruned - merged)


COST = Cost("mlp", own=_own_operations)
