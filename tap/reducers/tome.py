"""ToMe: merges the most similar pairs of tokens in every block."""

from __future__ import annotations

import torch
from timm.models.vision_transformer import Block
from torch import Tensor

from tap.core.budget import keep_count
from tap.encoder.blocks import add_attention, project_all, run_block, run_mlp
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import Reducer
from tap.reducers.costs import BlockCounts, Cost, merging, pairing
from tap.reducers.merging import Bipartite, Merged, copy_to_positions, merge, note_merge, regroup
from tap.reducers.registry import register

METHOD = Method(readout="own")
ROW = Row(
    "ToMe",
    tasks=("cls", "seg"),
    order=70,
    in_paper=True,
    origin=Origin(
        "facebookresearch/ToMe",
        "af95e4b",
        "CC BY-NC 4.0",
        path="bipartite merging by keys in every block",
        readout="each position copies the merged token that holds it",
        adapted=("merges per block are chosen so that exactly K tokens reach the last one",),
    ),
)


@register(METHOD)
class Tome(Reducer):
    """Pairs tokens by the cosine of their mean keys; a merged token is the mean of its patches."""

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Attends with every token, then merges, then runs the MLP on what is left."""
        to_come = self.schedule(state.patches)[layer - 1 :]
        removed = min(to_come[0], tokens.layout.width // 2)
        weighted = self.options.proportional and tokens.layout.width < state.patches
        if removed == 0 and any(to_come):
            state.note(layer, tokens, tokens)
        if removed == 0 and not weighted:
            return run_block(block, tokens)
        groups = Merged.of(tokens, state)
        hidden = block.norm1(tokens.x)
        query, keys, value = project_all(block.attn, hidden)
        tokens = add_attention(block, tokens, hidden, query, keys, value, groups.bias(tokens) if weighted else None)
        if removed:
            layout = tokens.layout
            match = Bipartite.match(tokens.grid(keys.mean(dim=1, dtype=torch.float32)), layout.prefix)
            plan = match.plan([removed] * layout.batch, layout.counts, layout.prefix)
            before, tokens = tokens, merge(tokens, plan, groups.size)
            regroup(groups, plan).keep(state)
            note_merge(layer, before, tokens, plan, state)
        return run_mlp(block, tokens)

    def read(self, tokens: Tokens, state: ForwardState) -> Tensor:
        """Each input position gets the token that holds it."""
        return copy_to_positions(tokens, state)

    def schedule(self, patches: int) -> list[int]:
        """Tokens to merge in each block; by default the same in each but the last, so that K reach that one.

        A block merges at most half of its patches. Where that stops an even schedule, the blocks before merge more.

        Raises:
            UserError: K is too small for halving in every block.
        """
        depth = self.settings.depth
        given = self.options.removals
        if given is not None:
            return [*given, *[0] * (depth - len(given))][:depth]
        final, present, removals = keep_count(patches, self.keep_rate), patches, []
        for left in reversed(range(max(1, depth - 1))):  # blocks that come after
            even = -(-(present - final) // (left + 1))
            removals.append(min(max(even, present - final * 2**left), present // 2))
            present -= removals[-1]
        if present > final:
            raise UserError(
                f"keep rate: ToMe merges at most half of the tokens in a block, so {len(removals)} blocks cannot get "
                f"from {patches} to {final} patches; raise the rate"
            )
        return [*removals, *[0] * (depth - len(removals))]


def _own_operations(given: BlockCounts) -> float:
    return pairing(given, given.dim / given.heads) + merging(given, given.removed) if given.removed else 0.0


COST = Cost("mlp", own=_own_operations)
