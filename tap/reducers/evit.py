"""EViT: keeps what the class token attends to and fuses the rest into one token."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from timm.models.vision_transformer import Block
from torch import Tensor

from tap.core.selection import select
from tap.encoder.blocks import add_attention, project_all, received_attention, run_block, run_mlp
from tap.encoder.layout import Layout
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import FixedSchedule, ReducerSettings
from tap.reducers.costs import BlockCounts, Cost, class_row
from tap.reducers.registry import register

METHOD = Method()
ROW = Row(
    "EViT",
    tasks=("cls",),
    order=30,
    in_paper=True,
    origin=Origin(
        "youweiliang/evit",
        "5ca95a7",
        "Apache-2.0",
        path="token fusion",
        adapted=("counts instead of rates, so that K is exact beside the fused token",),
    ),
)


@register(METHOD)
class Evit(FixedSchedule):
    """Keeps by class attention; the fused token competes as an ordinary token at the next pruning block."""

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(settings)
        if not settings.class_token:
            raise UserError("method: 'evit' ranks by the class token's attention; use a model with a class token")
        counts = self.options.counts
        if counts is not None and len(counts) != len(settings.layers):
            raise UserError(
                f"options.evit.counts: {len(counts)} for {len(settings.layers)} pruning blocks; give one for each"
            )

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Attends with every token, then removes and fuses, then runs the MLP on what stays."""
        count = self.count_after(layer, tokens, state)
        if count is None:
            return run_block(block, tokens)
        hidden = block.norm1(tokens.x)
        query, keys, value = project_all(block.attn, hidden)
        scores = received_attention(block, tokens, query, keys, from_class=True)
        before = add_attention(block, tokens, hidden, query, keys, value)
        keep = select(scores, before.layout.counts_tensor - count)
        _, after = before.survivors(keep, [count] * before.layout.batch)
        if self.options.fuse:
            after = append_fused(after, fuse(before, scores, keep), state.patches)
        state.note(layer, before, after)
        return run_mlp(block, after)

    def count_after(self, layer: int, tokens: Tokens, state: ForwardState) -> int | None:
        """Tokens to keep after block `layer`, without the new fused one; None where nothing is to be removed."""
        if self.options.stage_rate is None or layer not in self.settings.layers:
            return super().count_after(layer, tokens, state)
        present = tokens.layout.width
        count = math.ceil(self._warm(self.options.stage_rate) * present)
        if count < present:
            return count
        state.note(layer, tokens, tokens)
        return None

    def schedule(self, patches: int) -> list[int]:
        """Tokens kept at each pruning block: as given, or the same share at each; more of them during the warm-up."""
        counts = super().schedule(patches) if self.options.counts is None else list(self.options.counts)
        stages = range(1, len(counts) + 1)
        shares = [
            self._warm((count / patches) ** (1 / stage)) ** stage for count, stage in zip(counts, stages, strict=True)
        ]
        return [max(count, int(patches * share)) for count, share in zip(counts, shares, strict=True)]

    def _warm(self, rate: float) -> float:
        """The keep rate of a stage at the present progress: falls from 1 along half a cosine during the warm-up."""
        options = self.options
        if not self.training or self.progress >= options.warmup_end:
            return rate
        passed = max(0.0, self.progress - options.warmup_start) / (options.warmup_end - options.warmup_start)
        return rate + (1.0 - rate) * 0.5 * (1.0 + math.cos(math.pi * passed))


def fuse(tokens: Tokens, scores: Tensor, keep: Tensor) -> Tensor:
    """Sum of the removed tokens, weighted by their scores as they are `(B, d)`.

    Args:
        tokens: states after the attention, all images of one length.
        scores: class attention `(B, N)`.
        keep: what stays `(B, N)`.
    """
    weight = scores.masked_fill(keep, 0.0)
    patches = tokens.rectangle[:, tokens.layout.prefix :]
    with torch.autocast(patches.device.type, enabled=False):
        return (weight.unsqueeze(1) @ patches.to(weight.dtype)).squeeze(1).to(patches.dtype)


def append_fused(tokens: Tokens, fused: Tensor, patches: int) -> Tokens:
    """Puts one more token `(B, d)` behind the patches of each image; its index is the number of patches."""
    layout = tokens.layout
    x = torch.cat([tokens.rectangle, fused.unsqueeze(1)], dim=1)
    index = torch.cat([tokens.index, tokens.index.new_full((layout.batch, 1), patches)], dim=1)
    longer = Layout(layout.prefix, tuple(count + 1 for count in layout.counts), layout.order, layout.device)
    return replace(tokens, x=x.flatten(0, 1), layout=longer, index=index)


def _own_operations(given: BlockCounts) -> float:
    """The class token's attention, and the weighted sum of what goes."""
    return class_row(given) + (2.0 * float(given.before.sum()) * given.dim if given.reducer.options.fuse else 0.0)


COST = Cost("mlp", own=_own_operations)
