"""Token Cropr: learned queries rank the patches; auxiliary heads that only training has teach them what for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from timm.layers import Mlp, trunc_normal_, trunc_normal_tf_
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tap.config.options import OPTIONS
from tap.core.selection import select
from tap.encoder.blocks import run_block
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import IGNORE, FixedSchedule, ReducerSettings, TrainingPass
from tap.reducers.copies import complete_grid, keep_copies, rejoin
from tap.reducers.costs import BlockCounts, Cost, linear
from tap.reducers.precision import in_type_of_weights
from tap.reducers.registry import register

METHOD = Method(readout="own")
ROW = Row(
    "Token Cropr",
    tasks=("cls", "seg", "det"),
    order=120,
    in_paper=True,
    origin=Origin(
        "benbergner/cropr",
        "2f8b624",
        path="learned queries, auxiliary heads in training, last-layer fusion",
        readout="pruned patches re-join before the last block, in their places",
        adapted=("three pruning blocks instead of one behind every block",),
        adapted_dense=(
            "the most frequent class of a patch as its target",
            "in detection the class of the smallest box around it (the public code has no detection)",
        ),
    ),
)


SEEN = "cropr.seen"


class Scorer(nn.Module):
    """What inference needs: the queries, and with `projections` what is applied to them and to the tokens.

    Args:
        width: token dimension d.
        queries: how many.
        projections: whether tokens are normalised and queries and keys projected (a variant of the public code).
    """

    def __init__(self, width: int, queries: int, projections: bool = False) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.empty(1, queries, width))
        trunc_normal_tf_(self.queries, std=width**-0.5)
        self.norm = nn.LayerNorm(width, eps=1e-6) if projections else nn.Identity()
        self.q = nn.Linear(width, width, bias=False) if projections else nn.Identity()
        self.k = nn.Linear(width, width, bias=False) if projections else nn.Identity()

    @in_type_of_weights
    def forward(self, states: Tensor) -> Tensor:
        """Score of each row: the sum over queries (and heads) of the raw query-key product, float32.

        Args:
            states: `(T, d)`.

        Returns:
            `(T,)`.
        """
        keys = self.k(self.norm(states))
        total = self.q(self.queries[0]).float().sum(dim=0)
        # Product and sum instead of a matrix product: a score depends on its own row alone, to the last bit.
        return (keys.float() * total).sum(dim=-1)


class AuxiliaryHead(nn.Module):
    """Cross-attention of the queries on the tokens, MLP and classifier: a prediction per query, in training.

    Args:
        width: token dimension d.
        num_classes: outputs.
        mlp: whether an MLP follows the attention.
        heads: attention heads.
        projections: whether values (and with several heads the result) are projected.
    """

    def __init__(self, width: int, num_classes: int, mlp: bool = True, heads: int = 1, projections: bool = False):
        super().__init__()
        self.heads = heads
        self.v = nn.Linear(width, width, bias=False) if projections else nn.Identity()
        self.proj = nn.Linear(width, width) if heads > 1 else nn.Identity()
        self.mlp_norm = nn.LayerNorm(width, eps=1e-6) if mlp else None
        self.mlp = Mlp(width, 4 * width) if mlp else None
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)
        trunc_normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def forward(self, scorer: Scorer, states: Tensor) -> Tensor:
        """Logits `(B, Q, num_classes)` of a batch of token sequences `(B, S, d)`."""
        normalised = scorer.norm(states)
        query = scorer.q(scorer.queries).expand(len(states), -1, -1)
        parts = (part.unflatten(-1, (self.heads, -1)) for part in (query, scorer.k(normalised), self.v(normalised)))
        query, key, value = (part.transpose(1, 2) for part in parts)
        out = self.proj(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        if self.mlp is not None and self.mlp_norm is not None:
            out = out + self.mlp(self.mlp_norm(out))
        return self.head(self.norm(out))


@register(METHOD)
class Cropr(FixedSchedule):
    """Patches leave after a block; what has left re-joins before the last block, which sees every token.

    A query for the class in classification, one for each patch in dense tasks.
    """

    training_only = ("auxiliary",)
    wants_patch_targets = True

    def __init__(self, settings: ReducerSettings) -> None:
        options = settings.options or OPTIONS[self.name]()
        super().__init__(settings if options.layers is None else replace(settings, layers=options.layers))
        self.layers = self.settings.layers
        if self.layers[-1] >= settings.depth:
            raise UserError(
                f"options.cropr.layers: patches that leave after block {self.layers[-1]} of {settings.depth} spare "
                "nothing; name earlier blocks"
            )
        per_patch = settings.dense and settings.patches is not None
        queries = (settings.patches or 1) if per_patch else 1
        self.scorers = nn.ModuleList(Scorer(settings.width, queries, options.projections) for _ in self.layers)
        self.auxiliary = None
        if settings.num_classes is not None:
            classes = settings.num_classes + settings.background
            self.auxiliary = nn.ModuleList(
                AuxiliaryHead(settings.width, classes, options.mlp, options.heads, options.projections)
                for _ in self.layers
            )

    def schedule(self, patches: int) -> list[int]:
        """Patches left after each pruning block; in training the removals rise linearly to these, where that is set."""
        final = super().schedule(patches)
        warmup = self.options.warmup
        if warmup is None:
            warmup = 0.5 if self.settings.dense else 0.0
        if not self.training or self.progress >= warmup:
            return final
        return [patches - int((patches - count) * self.progress / warmup) for count in final]

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Runs the block; before the last one everything re-joins, after a pruning block some patches leave."""
        if layer == self.settings.depth and self.layers[-1] < layer:
            state.final_counts = tokens.layout.counts
            if self.options.last_layer_fusion:
                tokens = rejoin(tokens, state)
        tokens = run_block(block, tokens)
        if layer not in self.layers:
            return tokens
        stage = self.layers.index(layer)
        if self.training and self.auxiliary is not None and self.keep_rate < 1.0:
            # Detached: the auxiliary heads learn what the tokens hold, and do not change it.
            state.memory.setdefault(SEEN, []).append((stage, tokens.rectangle.detach()))
        count = self.schedule(state.patches)[stage]
        if count == tokens.layout.width:
            state.note(layer, tokens, tokens)
            return tokens
        keep_copies(tokens, state)
        scores = tokens.grid(self.scorers[stage](tokens.x.detach()))
        keep = select(scores, tokens.layout.counts_tensor - count)
        _, left = tokens.survivors(keep, [count] * tokens.layout.batch)
        state.note(layer, tokens, left)
        return left

    def read(self, tokens: Tokens, state: ForwardState) -> Tensor:
        """Pruned patches as they were when they left; after the last block all of them are there anyway."""
        return complete_grid(tokens, state)

    def losses(self, given: TrainingPass) -> dict[str, Tensor]:
        """The task's loss of every auxiliary head: of the image's class, or of the class of every patch."""
        terms: dict[str, Tensor] = {}
        for stage, states in given.output.memory.get(SEEN, ()):
            logits = self.predict(stage, states)
            if not self.settings.dense:
                if given.targets is None:
                    continue
                loss = F.cross_entropy(logits[:, 0], given.targets)
            else:
                targets = given.patch_targets
                if targets is None:
                    continue
                if targets.shape[1] != logits.shape[1]:
                    raise UserError(
                        f"cropr: has queries for {logits.shape[1]} patches and was given an image of "
                        f"{targets.shape[1]}; train on images of model.image_size"
                    )
                labelled = (targets != IGNORE).sum().clamp(min=1)  # none at all must not give 0 / 0
                total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum")
                loss = total / labelled
            terms[f"auxiliary_{self.layers[stage]}"] = self.options.weight * loss
        return terms

    def predict(self, stage: int, states: Tensor) -> Tensor:
        """Logits of an auxiliary head `(B, Q, num_classes)`, float32, of token sequences `(B, S, d)`."""
        heads: Any = self.auxiliary
        return heads[stage](self.scorers[stage], states).float()


def _own_operations(given: BlockCounts) -> float:
    """Nothing in the published form, whose queries meet the tokens as they are; else both are projected."""
    scorer = given.reducer.scorers[given.reducer.layers.index(given.layer)]
    return 2.0 * (given.rows + scorer.queries.shape[1]) * linear(scorer.k)


def _restarts(reducer: Cropr, layer: int) -> bool:
    """The last block sees all patches again, where they are fused there."""
    return layer == reducer.settings.depth and reducer.options.last_layer_fusion


COST = Cost("end", own=_own_operations, restarts=_restarts)
