"""SViT: a gate in front of each later block lets tokens through or past it; those that go past may return."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from timm.layers import Mlp
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tap.encoder.blocks import run_block, run_masked
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.method_facts import Method, Origin, Row
from tap.reducers.base import Reducer, ReducerSettings, TrainingPass
from tap.reducers.costs import BlockCounts, Cost, linear
from tap.reducers.precision import in_type_of_weights
from tap.reducers.registry import register

METHOD = Method(readout="complete", calibrated=True)
ROW = Row(
    "SViT",
    tasks=("det",),
    order=110,
    in_paper=True,
    origin=Origin(
        "uzh-rpg/svit",
        "d2472c1",
        "Apache-2.0",
        readout="skipped tokens are copied through",
        adapted=(
            "ViTDet trunk: windows group the tokens that gates let through",
            "at least one token goes through",
            "threshold calibrated to a mean of K in the last block",
        ),
    ),
)


CHOSEN = "svit.chosen"
FIRST_BLOCK = 4


class Gate(nn.Module):
    """LayerNorm and a two-layer MLP to the log-probabilities of (through, past).

    Args:
        width: token dimension d; the MLP has d/4 hidden units.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = Mlp(width, width // 4, 2)

    @in_type_of_weights
    def forward(self, states: Tensor) -> Tensor:
        """Log-probabilities `(..., 2)`, float32, of states `(..., d)`."""
        return self.mlp(self.norm(states)).float().log_softmax(dim=-1)


@register(METHOD)
class SViT(Reducer):
    """Tokens that the gate lets past keep their state; under the threshold's calibration the last block gets K of them.

    A gate decides on patches alone (the public variant that leaves the class token out); at least one goes through.
    """

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(settings)
        self.gated = self.options.layers or tuple(range(FIRST_BLOCK, settings.depth + 1))
        if not self.gated or list(self.gated) != sorted(set(self.gated)) or self.gated[-1] > settings.depth:
            raise UserError(
                f"options.svit.layers: {list(self.gated)} must be increasing blocks of a model with {settings.depth}"
            )
        if self.options.ratios is not None and len(self.options.ratios) != len(self.gated):
            raise UserError(
                f"options.svit.ratios: {len(self.options.ratios)} shares for {len(self.gated)} gates; give one each"
            )
        self.gates = nn.ModuleList(Gate(settings.width) for _ in self.gated)
        self.threshold: Tensor
        self.register_buffer("threshold", torch.tensor(0.5))

    def ratio(self, layer: int) -> float:
        """Share of tokens that block `layer` is to get: by default rho^(1/3), rho^(2/3), rho by thirds of them."""
        if self.options.ratios is not None:
            return self.options.ratios[self.gated.index(layer)]
        third = self.gated.index(layer) * 3 // len(self.gated) + 1
        return self.keep_rate ** (third / 3)

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Runs the block on the tokens that its gate lets through."""
        if layer not in self.gated or state.keep_count == state.patches:
            return run_block(block, tokens)
        gate = self.gates[self.gated.index(layer)](tokens.grid(tokens.x))
        return (
            self._train(layer, block, tokens, gate, state)
            if self.training
            else self._run(layer, block, tokens, gate, state)
        )

    def _run(self, layer: int, block: Block, tokens: Tokens, gate: Tensor, state: ForwardState) -> Tokens:
        """Only what goes through is computed, packed; the results go back to their places."""
        probability = gate[..., 0].exp()
        # Through with more than 1 - threshold: half by default, and more go through the higher the threshold.
        through = at_least_one(probability > 1.0 - self.threshold, probability)
        counts = through.sum(dim=1).tolist()  # the one host read of this block
        rows, chosen = tokens.survivors(through, counts)
        state.note(layer, tokens, chosen)
        state.final_counts = chosen.layout.counts
        chosen = run_block(block, chosen)
        return tokens.with_states(tokens.x.index_copy(0, rows, chosen.x.to(tokens.x.dtype)))

    def _train(self, layer: int, block: Block, tokens: Tokens, gate: Tensor, state: ForwardState) -> Tokens:
        """Everything is computed, with those that go past hidden from the others, so that every gate learns."""
        through = F.gumbel_softmax(gate, tau=self.options.tau, hard=True)[..., 0]
        state.memory.setdefault(CHOSEN, {})[layer] = through
        prefix = through.new_ones(tokens.layout.batch, tokens.layout.prefix)
        mask = torch.cat([prefix, through], dim=1).reshape(-1)
        ran = run_masked(block, tokens, mask.detach() > 0.5)
        weight = mask[:, None].to(tokens.x.dtype)
        return tokens.with_states(weight * ran.x + (1 - weight) * tokens.x)

    def losses(self, given: TrainingPass) -> dict[str, Tensor]:
        """The squared distance of each gate's mean share from its ratio, over the batch; the mean over gates."""
        chosen = given.output.memory.get(CHOSEN)
        if not chosen:
            return {}
        distances = [(through.mean() - self.ratio(layer)).square() for layer, through in chosen.items()]
        return {"ratio": self.options.ratio_weight * torch.stack(distances).mean()}


def at_least_one(through: Tensor, probability: Tensor) -> Tensor:
    """Lets the likeliest token of an image through where none is `(B, N)`; of equally likely ones the first."""
    likeliest = probability == probability.amax(dim=1, keepdim=True)
    first = torch.zeros_like(through).scatter_(1, likeliest.to(torch.uint8).argmax(dim=1, keepdim=True), True)
    return through | (first & ~through.any(dim=1, keepdim=True))


def _own_operations(given: BlockCounts) -> float:
    return 2.0 * float(given.before.sum()) * linear(given.reducer.gates[given.reducer.gated.index(given.layer)])


def _restarts(_: SViT, __: int) -> bool:
    """Every block chooses among all patches."""
    return True


COST = Cost("block", own=_own_operations, restarts=_restarts)
