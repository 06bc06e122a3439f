"""DynamicViT: a predictor before each stage; training hides patches in attention and learns from the dense model."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tap.core.selection import select
from tap.encoder.attention import soft_attention
from tap.encoder.blocks import add_attended, attention_operands, project, project_all, run_block, run_mlp
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import FixedSchedule, PartRates, ReducerSettings, TrainingPass, remove
from tap.reducers.costs import BlockCounts, Cost, linear
from tap.reducers.precision import in_type_of_weights
from tap.reducers.registry import register

METHOD = Method(taught=True)
ROW = Row(
    "DynamicViT",
    tasks=("cls",),
    order=40,
    in_paper=True,
    origin=Origin(
        "raoyongming/DynamicViT",
        "1322e62",
        "MIT",
        path="learned predictors, masked attention and dense teacher in training",
        adapted=(
            "the teacher is the no-pruning checkpoint of the same seed",
            "phases as shares of the common budget",
            "neither frozen phase nor slow backbone where training starts from MAE weights",
        ),
    ),
)


KEPT, DECISIONS = "dynamicvit.kept", "dynamicvit.decisions"


class Predictor(nn.Module):
    """Log-probabilities of (keep, drop) for each patch, from itself and from the mean of those that are left.

    Args:
        width: token dimension d.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.into = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        self.out = nn.Sequential(
            nn.Linear(width, width // 2),
            nn.GELU(),
            nn.Linear(width // 2, width // 4),
            nn.GELU(),
            nn.Linear(width // 4, 2),
        )

    @in_type_of_weights
    def forward(self, patches: Tensor, kept: Tensor | None = None) -> Tensor:
        """Predicts.

        Args:
            patches: `(B, N, d)`.
            kept: 1 for patches that are left, 0 for dropped ones `(B, N)`; None where all are left.

        Returns:
            `(B, N, 2)`, float32.
        """
        local, shared = self.into(patches).chunk(2, dim=-1)
        weights = torch.ones_like(shared[..., :1]) if kept is None else kept[..., None].to(shared.dtype)
        # Nothing left of an image gives a mean of 0.
        mean = (shared * weights).sum(dim=1, keepdim=True) / weights.sum(dim=1, keepdim=True).clamp(min=1)
        return self.out(torch.cat([local, mean.expand_as(shared)], dim=-1)).float().log_softmax(dim=-1)


@register(METHOD)
class DynamicViT(FixedSchedule):
    """Inference removes before a block and keeps the likeliest; training keeps the length and masks attention."""

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(settings)
        self.predictors = nn.ModuleList(Predictor(settings.width) for _ in settings.layers)

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Decides at the first block of a stage, then runs the block."""
        if self.training and state.keep_count < state.patches:
            return self._train(layer, block, tokens, state)
        count = self.count_after(layer, tokens, state)
        if count is None:
            return run_block(block, tokens)
        predictor: Any = self.predictors[self.settings.layers.index(layer)]
        scores = predictor(tokens.grid(tokens.x))[..., 0]
        keep = select(scores, tokens.layout.counts_tensor - count)
        keys = None
        if state.recovery is not None:  # the common recovery compares keys, which the method itself has no need of
            keys = project(block.attn, block.norm1(tokens.x), "k")
        _, tokens = remove(layer, tokens, keep, [count] * tokens.layout.batch, state, keys, scores=scores)
        return run_block(block, tokens)

    def _train(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """All patches stay; dropped ones are hidden from all others, by weights that carry the gradient."""
        batch, prefix = tokens.layout.batch, tokens.layout.prefix
        kept = state.memory.get(KEPT)
        if layer in self.settings.layers:
            predictor: Any = self.predictors[self.settings.layers.index(layer)]
            before = torch.ones(batch, state.patches, device=tokens.x.device) if kept is None else kept
            kept = self.decide(predictor(tokens.grid(tokens.x), before), before)
            state.memory[KEPT] = kept
            state.memory.setdefault(DECISIONS, []).append(kept)
        if kept is None:
            return run_block(block, tokens)
        hidden = block.norm1(tokens.x)
        query, key, value = project_all(block.attn, hidden)
        query, key = attention_operands(block, tokens, query, key)
        policy = torch.cat([kept.new_ones(batch, prefix), kept], dim=1)
        out, _ = soft_attention(query, key, value.unflatten(0, (batch, -1)), policy)
        return run_mlp(block, add_attended(block, tokens, hidden, out))

    def decide(self, log_probabilities: Tensor, before: Tensor) -> Tensor:
        """Hard draws with a soft gradient `(B, N)`: Gumbel at temperature 1; what is dropped stays dropped.

        Args:
            log_probabilities: of (keep, drop) `(B, N, 2)`.
            before: the decisions of the stage before `(B, N)`.
        """
        return F.gumbel_softmax(log_probabilities, hard=True)[..., 0] * before

    def losses(self, given: TrainingPass) -> dict[str, Tensor]:
        """Keep ratios of every image and stage, and what the dense teacher says: its logits and its kept tokens."""
        memory, options, output = given.output.memory, self.options, given.output
        if DECISIONS not in memory:
            return {}
        stages = len(self.settings.layers)
        ratios = [self.keep_rate ** ((stage + 1) / stages) for stage in range(stages)]
        decisions = zip(memory[DECISIONS], ratios, strict=True)
        apart = torch.stack([(kept.mean(dim=1) - ratio).square().mean() for kept, ratio in decisions])
        terms = {"ratio": options.ratio_weight * apart.mean()}
        if given.teacher is not None and given.logits is not None:
            said, known = given.logits.float().log_softmax(dim=-1), given.teacher.logits.log_softmax(dim=-1)
            terms["teacher_logits"] = options.distill_weight * F.kl_div(
                said, known, reduction="batchmean", log_target=True
            )
            states = given.encoder.vit.norm(output.tokens.rectangle)[:, output.tokens.layout.prefix :]
            terms["teacher_tokens"] = options.token_weight * self._token_term(
                states.float(), given.teacher.patches.float(), memory[KEPT].detach()
            )
        return terms

    def _token_term(self, states: Tensor, known: Tensor, kept: Tensor) -> Tensor:
        """Distance of the kept patches from the teacher's, over the batch."""
        if self.options.token_loss == "mse":
            distance = (states - known).square().mean(dim=-1)
        else:
            distance = F.kl_div(
                states.log_softmax(dim=-1), known.log_softmax(dim=-1), reduction="none", log_target=True
            ).sum(dim=-1)
        return (distance * kept).sum() / kept.sum().clamp(min=1)

    def rates(self) -> PartRates:
        """The predictors alone at first, then a slow backbone beside them (public)."""
        options = self.options
        slow = 0.0 if self.progress < options.frozen else options.backbone_lr
        return PartRates(reducer=options.predictor_lr, backbone=slow, head=slow)


def _own_operations(given: BlockCounts) -> float:
    stage = given.reducer.settings.layers.index(given.layer)
    return 2.0 * float(given.before.sum()) * linear(given.reducer.predictors[stage]) if given.removed else 0.0


COST = Cost("block", own=_own_operations)
