"""TAP: the task register ranks patches, splits the removal budget over depth and scales what recovery gives back."""

from __future__ import annotations

import torch
from timm.models.vision_transformer import Block
from torch import Tensor

from tap.core.budget import Allocation, allocate, keep_count, settle_proposal, split_by_shares
from tap.core.noise import gumbel_like
from tap.core.register import Controller
from tap.core.selection import ragged_register_scores, register_scores, select
from tap.core.straight_through import gather_retained, soft_keep, straight_through
from tap.core.temperature import cosine_temperature
from tap.encoder.blocks import attend_survivors, project, ragged_incoming_attention, run_block, run_mlp
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.method_facts import Method, Row
from tap.reducers.base import Reducer, ReducerSettings, TrainingPass, remove
from tap.reducers.costs import BlockCounts, Cost
from tap.reducers.registry import register
from tap.reducers.tap_estimators import IndependentGates

METHOD = Method(readout="learned")
ROW = Row("TAP-J (ours)", tasks="all", order=210, in_paper=True)

RATE_WEIGHT = 2.0
"""Weight of the rate loss where the settings give none: that of DynamicViT's ratio loss."""


@register(METHOD)
class Tap(Reducer):
    """One register and two readouts, 3 d + 2 parameters (Sec. Parameter and memory cost)."""

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(settings)
        self.controller = Controller(
            settings.width,
            (settings.task,),
            True,
            settings.allocation_bias,
            settings.recovery_bias,
            settings.register_std,
        )
        self.temperature = settings.tau_start
        weight = RATE_WEIGHT if settings.rate_weight is None else settings.rate_weight
        self.gates = IndependentGates(settings.layers, weight) if settings.estimator == "independent" else None

    def set_progress(self, progress: float) -> None:
        """Anneals the temperature of the soft mask."""
        super().set_progress(progress)
        self.temperature = cosine_temperature(progress, self.settings.tau_start, self.settings.tau_end)

    def extra_prefix(self, batch: int, patches: int) -> Tensor | None:
        """The initial register of the active task `(B, 1, d)`, without a position; None where the budget is empty.

        Without removals there is nothing to control, and leaving the register out makes keep rate 1 the dense model.
        """
        if keep_count(patches, self.keep_rate) == patches:
            return None
        return self.controller.initial(self.settings.task, batch)

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Scores, allocates and removes before the block; queries and values only for what stays (Alg. S1)."""
        layers, layout = self.settings.layers, tokens.layout
        if layer not in layers:
            return run_block(block, tokens)
        if max(layout.counts) == state.keep_count and (self.gates is None or state.patches == state.keep_count):
            state.note(layer, tokens, tokens)
            return run_block(block, tokens)
        register_rows = layout.prefix_rows(layout.prefix - 1)
        hidden = block.norm1(tokens.x)
        keys = project(block.attn, hidden, "k")
        register_state = tokens.x.index_select(0, register_rows)

        scores = self.scores(block, tokens, hidden, keys, register_rows)
        allocation = self.allocate(layer, tokens, register_state, state)

        perturbed = scores
        if self.training and self.settings.gumbel:
            perturbed = scores + gumbel_like(scores)
        if self.gates is not None:
            perturbed = self.gates.logits(layer, perturbed)
        keep, counts = self._choose(layer, tokens, perturbed, allocation, state)
        scale = None
        if state.recovery is not None and state.recovery.settings.scale == "learned":
            scale = self.controller.recovery_scale(register_state)
            if state.trace is not None:
                state.trace.scales[layer] = scale.detach()
        rows, survivors = remove(layer, tokens, keep, counts, state, keys, scale, scores)
        if self.training and self.settings.estimator != "hard":
            survivors = survivors.with_states(self._masked(tokens, perturbed, keep, allocation, rows, state))
        parts = [part.index_select(0, rows) for part in (hidden, keys)]
        del tokens, hidden, keys, scores, perturbed, register_state  # those of removed patches are freed
        survivors = attend_survivors(block, survivors, parts)
        return run_mlp(block, survivors)

    def scores(self, block: Block, tokens: Tokens, hidden: Tensor, keys: Tensor, register_rows: Tensor) -> Tensor:
        """Register-to-patch scores on the padded grid `(B, N)`, float32 (Eq. 1); in ablations what stands in for them.

        Args:
            block: the pruning block.
            tokens: candidates.
            hidden: their normalised states `(T, d)`.
            keys: their keys `(T, H, d_h)`.
            register_rows: the register's row of each image `(B,)`.
        """
        layout = tokens.layout
        if self.settings.selection == "attention":
            return ragged_incoming_attention(block, tokens, project(block.attn, hidden, "q"), keys)
        asking = hidden.index_select(0, register_rows)
        if self.settings.selection == "initial":
            asking = block.norm1(self.controller.initial(self.settings.task, layout.batch).squeeze(1)).to(hidden.dtype)
        query = project(block.attn, asking, "q")
        if layout.uniform:
            return register_scores(query, keys.unflatten(0, (layout.batch, -1))[:, layout.prefix :])
        return tokens.grid(ragged_register_scores(query, keys, layout.image))

    def allocate(self, layer: int, tokens: Tokens, register_state: Tensor, state: ForwardState) -> Allocation:
        """How many patches each image loses at this block: the register's share of the unspent budget (Alg. 1).

        Args:
            layer: the pruning block, from 1.
            tokens: candidates.
            register_state: the register that enters the block `(B, d)`.
            state: the forward pass.
        """
        counts = tokens.layout.counts_tensor
        budget = counts - state.keep_count  # B = N_l - K (Eq. S3)
        if self.gates is not None:
            budget = budget.clamp_min(0)  # gates may have removed more than they should
        if layer == self.settings.layers[-1]:
            return allocate(None, budget, counts, last=True)
        if self.settings.schedule is not None:
            given = torch.full_like(budget, self._scheduled(layer, state), dtype=torch.float32)
            return settle_proposal(given, budget, counts)
        return allocate(self.controller.share_logit(register_state), budget, counts, last=False)

    def _choose(
        self, layer: int, tokens: Tokens, perturbed: Tensor, allocation: Allocation, state: ForwardState
    ) -> tuple[Tensor, list[int]]:
        """Which cells of the padded grid stay `(B, N)`, and how many in each image, on the host (Alg. S2)."""
        layout = tokens.layout
        if self.gates is not None:
            keep = self.gates.keep(perturbed, layout.valid)
            return keep, keep.sum(dim=1).tolist()
        keep = select(perturbed, allocation.removals, layout.valid)
        # The host knows what the last layer and a schedule leave; elsewhere the counts are the one thing read back.
        if layer == self.settings.layers[-1]:
            return keep, [state.keep_count] * layout.batch
        if self.settings.schedule is not None:
            return keep, [max(count - self._scheduled(layer, state), state.keep_count) for count in layout.counts]
        return keep, (layout.counts_tensor - allocation.removals).tolist()

    def losses(self, given: TrainingPass) -> dict[str, Tensor]:
        """The rate loss of independent gates; nothing otherwise, since an exact count needs none."""
        terms = given.output.memory.get("rate", [])
        return {"rate_loss": self.gates.weight * torch.stack(terms).mean()} if self.gates is not None and terms else {}

    def _scheduled(self, layer: int, state: ForwardState) -> int:
        """Patches that every image loses at this block under a given schedule."""
        assert self.settings.schedule is not None
        removals = split_by_shares(self.settings.schedule, state.patches - state.keep_count)
        return removals[self.settings.layers.index(layer)]

    def _masked(
        self,
        tokens: Tokens,
        perturbed: Tensor,
        keep: Tensor,
        allocation: Allocation,
        rows: Tensor,
        state: ForwardState,
    ) -> Tensor:
        """The retained rows times the straight-through mask (Eqs. 4-6): the same values, with gradients to the scores.

        LayerNorm does not see the scale of its input, so the gradient of the mask enters through the residual stream,
        and keys and normalised states from before the mask are reused.
        """
        layout = tokens.layout
        if self.gates is None:
            soft = soft_keep(perturbed, allocation.target, self.temperature, layout.valid)
            hard = straight_through(keep, soft)
        else:
            hard = self.gates.mask(keep, perturbed, self.temperature)
            about = (allocation.target, layout.counts_tensor, layout.valid)
            state.memory.setdefault("rate", []).append(self.gates.penalty(perturbed, self.temperature, *about))
        cells = layout.real_cells(hard)
        mask = torch.ones(layout.rows, dtype=cells.dtype, device=cells.device).index_copy(0, layout.patch_rows, cells)
        return gather_retained(tokens.x, mask, rows)


def register_query(given: BlockCounts) -> float:
    """The register's query; scores are a product and a sum (Eq. 1), readouts a vector each."""
    return 2.0 * given.images * given.dim**2 if given.removed else 0.0


COST = Cost("queries", own=register_query)
