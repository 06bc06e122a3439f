"""Static rule: TAP's encoder with attention as the score and one late-heavy schedule for all tasks and images."""

from __future__ import annotations

from itertools import accumulate

from timm.models.vision_transformer import Block

from tap.core.budget import keep_count, split_by_shares
from tap.core.selection import select
from tap.encoder.blocks import attend_survivors, project, received_attention, run_block, run_mlp
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method, Row
from tap.reducers.base import FixedSchedule, ReducerSettings, remove
from tap.reducers.costs import BlockCounts, Cost, all_rows
from tap.reducers.registry import register

METHOD = Method(readout="common")
ROW = Row("Static rule", tasks="all", order=200, in_paper=True)


@register(METHOD)
class Static(FixedSchedule):
    """Keeps the largest mean incoming attention; the blocks remove 26.8, 33.4 and 39.8 % of the budget."""

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(settings)
        if len(settings.split) != len(settings.layers):
            raise UserError(
                f"static_split: {len(settings.split)} shares for {len(settings.layers)} pruning blocks; give one each"
            )

    def schedule(self, patches: int) -> list[int]:
        """Patches left after each pruning block, from the shares of the removal budget."""
        removals = split_by_shares(self.settings.split, patches - keep_count(patches, self.keep_rate))
        return [patches - removed for removed in accumulate(removals)]

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Scores and removes before the block, as TAP does."""
        count = self.count_after(layer, tokens, state)
        if count is None:
            return run_block(block, tokens)
        hidden = block.norm1(tokens.x)
        query, keys = project(block.attn, hidden, "q"), project(block.attn, hidden, "k")
        scores = received_attention(block, tokens, query, keys, from_class=False)
        keep = select(scores, tokens.layout.counts_tensor - count)
        rows, tokens = remove(layer, tokens, keep, [count] * tokens.layout.batch, state, keys, scores=scores)
        parts = [part.index_select(0, rows) for part in (hidden, keys)]
        del hidden, keys, query
        tokens = attend_survivors(block, tokens, parts)
        return run_mlp(block, tokens)


def _own_operations(given: BlockCounts) -> float:
    """Queries of the candidates, and what each of them receives."""
    return 2 * given.rows * given.dim**2 + all_rows(given)


COST = Cost("queries", own=_own_operations)
