"""Evo-ViT: half of the patches skip the blocks of a stage and wait in their place; the next stage chooses anew."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from timm.layers import trunc_normal_
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tap.core.selection import select
from tap.encoder.blocks import add_attention, project_all, received_attention, run_block, run_mlp
from tap.encoder.sparse_vit import EncoderOutput
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import Reducer, ReducerSettings, TrainingPass
from tap.reducers.copies import complete_grid, keep_copies, rejoin
from tap.reducers.costs import BlockCounts, Cost
from tap.reducers.registry import register

METHOD = Method(readout="own")
ROW = Row(
    "Evo-ViT",
    tasks=("cls",),
    order=50,
    in_paper=True,
    origin=Origin(
        "YifanXu74/Evo-ViT",
        "4c5d9b3",
        path="slow-fast update (fast patches wait unchanged), mean of all patches at the head",
        adapted=("stages from the first step on instead of after 200 epochs with a choice at every block",),
    ),
)


SCORES, SLOW = "evovit.scores", "evovit.slow"


class ClassHead(nn.Module):
    """The second classifier, on the class token, that only the training has.

    Args:
        width: token dimension.
        num_classes: outputs.
    """

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, num_classes)
        trunc_normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Logits `(B, num_classes)` of class tokens `(B, d)`."""
        return self.head(self.norm(states))


@register(METHOD)
class EvoViT(Reducer):
    """Slow patches run through the blocks of a stage, fast ones wait; a running class attention chooses.

    Public DeiT code: the fast patches keep their state, without an update by a representative token.
    """

    training_only = ("class_head",)

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(settings)
        self.stages = (self.options.first_block, *self.options.chosen_again)
        if self.stages[-1] > settings.depth:
            raise UserError(
                f"options.evovit: chooses at block {self.stages[-1]} of a model with {settings.depth} blocks; "
                "name earlier blocks"
            )
        self.class_head = None
        if settings.num_classes is not None and settings.class_token and self.options.readout == "mean":
            self.class_head = ClassHead(settings.width, settings.num_classes)

    @property
    def task_weight(self) -> float:
        """Weight of the first head's loss in training: both heads share a weight of 1."""
        return 1.0 - self.options.class_weight if self.class_head is not None and self._prunes else 1.0

    @property
    def _prunes(self) -> bool:
        return self.keep_rate < 1.0

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Runs the block on the slow patches; joins and chooses at the first block of a stage."""
        if state.keep_count == state.patches:
            return run_block(block, tokens)
        if layer in self.stages:
            tokens = self._choose(layer, tokens, state)
        later = [stage for stage in self.stages if stage > layer]
        if layer + 1 >= self.stages[0] and later:
            tokens = self._run_scored(block, tokens, state)
        else:
            tokens = run_block(block, tokens)
        if layer == self.settings.depth and layer >= self.stages[0]:
            state.final_counts = tokens.layout.counts
            tokens = rejoin(tokens, state)
        return tokens

    def _choose(self, layer: int, tokens: Tokens, state: ForwardState) -> Tokens:
        """Puts all patches together and takes the slow ones of the stage: exactly K."""
        tokens = rejoin(tokens, state)
        keep_copies(tokens, state)
        keep = select(state.memory[SCORES], tokens.layout.counts_tensor - state.keep_count)
        _, slow = tokens.survivors(keep, [state.keep_count] * tokens.layout.batch)
        state.note(layer, tokens, slow)
        return slow

    def _run_scored(self, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """A block whose class attention is taken over, or mixed into the running score of the slow patches."""
        hidden = block.norm1(tokens.x)
        query, keys, value = project_all(block.attn, hidden)
        received = received_attention(block, tokens, query.detach(), keys.detach(), self.settings.class_token)
        scores = query.shape[1] * received  # the sum over heads
        running = state.memory.get(SCORES)
        if running is not None:
            momentum = self.options.momentum
            mixed = momentum * running.gather(1, tokens.index) + (1.0 - momentum) * scores
            scores = running.scatter(1, tokens.index, mixed)
        state.memory[SCORES] = scores
        return run_mlp(block, add_attention(block, tokens, hidden, query, keys, value))

    def read(self, tokens: Tokens, state: ForwardState) -> Tensor:
        """Fast patches as they wait."""
        return complete_grid(tokens, state)

    def pool(self, vit: Any, output: EncoderOutput) -> Tensor | None:
        """The normalised mean of all patches, slow and fast (public); the dense model's readout where none is fast."""
        if output.final_counts == output.tokens.layout.counts or self.options.readout == "class":
            return None
        tokens = output.tokens
        return vit.fc_norm(vit.norm(tokens.rectangle[:, tokens.layout.prefix :].mean(dim=1)))

    def losses(self, given: TrainingPass) -> dict[str, Tensor]:
        """The second head's cross entropy, on the class token."""
        tokens = given.output.tokens
        if self.class_head is None or given.targets is None or given.output.final_counts == tokens.layout.counts:
            return {}
        logits = self.class_head(tokens.x.index_select(0, tokens.layout.prefix_rows(0))).float()
        return {"class_head": self.options.class_weight * F.cross_entropy(logits, given.targets)}


def _own_operations(given: BlockCounts) -> float:
    """The class token's attention on the slow patches, in every block before the last choice."""
    stages = given.reducer.stages
    if given.layer + 1 < stages[0] or given.layer >= stages[-1]:
        return 0.0
    return 2.0 * given.dim * float((given.after + given.prefix).sum())


def _restarts(reducer: EvoViT, layer: int) -> bool:
    """Slow patches are chosen anew, from all, where a stage begins."""
    return layer in reducer.stages


def _works(reducer: EvoViT) -> tuple[int, ...]:
    """The class token looks on between the stages too."""
    return () if reducer.keep_rate == 1.0 else tuple(range(reducer.stages[0] - 1, reducer.stages[-1]))


COST = Cost("block", own=_own_operations, restarts=_restarts, works=_works)
