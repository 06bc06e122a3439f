"""Random: a seeded permutation of each image's patches, drawn anew at every pruning block."""

from __future__ import annotations

from timm.models.vision_transformer import Block

from tap.core.noise import stateless_uniform
from tap.core.selection import select
from tap.encoder.blocks import attend_survivors, project, run_block, run_mlp
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.method_facts import Method, Row
from tap.reducers.base import FixedSchedule, remove
from tap.reducers.costs import Cost
from tap.reducers.registry import register

METHOD = Method(readout="common")
ROW = Row("Random", tasks="all", order=10, in_paper=True)


@register(METHOD)
class Random(FixedSchedule):
    """Keeps patches in the order of a stateless draw keyed by (seed, sample id, block)."""

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Removes before the block, so that it only sees what stays."""
        count = self.count_after(layer, tokens, state)
        if count is None:
            return run_block(block, tokens)
        draw = stateless_uniform(self.settings.seed, state.sample_ids, layer, state.patches)
        keep = select(draw.gather(1, tokens.index), tokens.layout.counts_tensor - count)
        counts = [count] * tokens.layout.batch
        if state.recovery is None:  # nothing looks at the keys of removed patches
            return run_block(block, remove(layer, tokens, keep, counts, state)[1])
        hidden = block.norm1(tokens.x)
        keys = project(block.attn, hidden, "k")
        rows, tokens = remove(layer, tokens, keep, counts, state, keys)
        parts = [part.index_select(0, rows) for part in (hidden, keys)]
        del hidden, keys
        tokens = attend_survivors(block, tokens, parts)
        return run_mlp(block, tokens)


COST = Cost("queries", looks=False)
