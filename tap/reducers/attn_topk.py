"""Attn Top-K: EViT's score without its fused token, cut between attention and MLP."""

from __future__ import annotations

from timm.models.vision_transformer import Block

from tap.core.selection import select
from tap.encoder.blocks import add_attention, project_all, received_attention, run_block, run_mlp
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import FixedSchedule, remove
from tap.reducers.costs import BlockCounts, Cost, all_rows, class_row
from tap.reducers.registry import register

METHOD = Method(readout="common")
ROW = Row(
    "Attn Top-K",
    tasks="all",
    order=20,
    in_paper=True,
    origin=Origin(
        "youweiliang/evit",
        "5ca95a7",
        "Apache-2.0",
        readout="EViT score without the fused token, no native readout, common recovery",
        adapted=("mean incoming attention where there is no class token",),
    ),
)


@register(METHOD)
class AttnTopK(FixedSchedule):
    """Keeps what the class token attends to most; without a class token, what is attended to most on average."""

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Attends with every patch, then removes, then runs the MLP on what stays."""
        count = self.count_after(layer, tokens, state)
        if count is None:
            return run_block(block, tokens)
        hidden = block.norm1(tokens.x)
        query, keys, value = project_all(block.attn, hidden)
        scores = received_attention(block, tokens, query, keys, self.settings.class_token)
        tokens = add_attention(block, tokens, hidden, query, keys, value)
        keep = select(scores, tokens.layout.counts_tensor - count)
        _, tokens = remove(layer, tokens, keep, [count] * tokens.layout.batch, state, keys, scores=scores)
        return run_mlp(block, tokens)


def _own_operations(given: BlockCounts) -> float:
    return class_row(given) if given.reducer.settings.class_token else all_rows(given)


COST = Cost("mlp", own=_own_operations)
