"""The one interface of all methods that shorten the sequence.

A reducer runs each block of the encoder, from whole pieces of it (`tap.encoder.blocks`), and may remove patches at any
point in between. The encoder itself is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tap.core.budget import keep_count
from tap.encoder.blocks import run_block
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError


@dataclass(frozen=True)
class ReducerSettings:
    """What a method may know when it is built.

    Attributes:
        width: token dimension d.
        depth: blocks L.
        keep_rate: final keep rate rho in (0, 1].
        layers: pruning blocks, from 1, increasing.
        task: `cls`, `seg` or `det`.
        class_token: whether row 0 of every image is a class token.
        dense: whether a dense head reads grids (then TAP has a recovery readout in use).
        split: shares of the removal budget per pruning block, for methods with a fixed schedule.
        seed: seed of stateless draws.
        tau_start, tau_end, gumbel: straight-through training (Eq. 4).
        allocation_bias, recovery_bias, register_std: initial values of the controller.
        schedule: shares of the removal budget per pruning block that replace the learned allocation (ablations).
    """

    width: int
    depth: int
    keep_rate: float = 0.5
    layers: tuple[int, ...] = (3, 6, 9)
    task: str = "cls"
    class_token: bool = True
    dense: bool = False
    split: tuple[float, ...] = (26.8, 33.4, 39.8)
    seed: int = 0
    tau_start: float = 1.0
    tau_end: float = 0.1
    gumbel: bool = True
    allocation_bias: float = -0.693147
    recovery_bias: float = 0.0
    register_std: float = 0.02
    schedule: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.keep_rate <= 1.0:
            raise UserError(f"keep_rate: {self.keep_rate} is outside (0, 1]; give the share of patches to keep")
        if list(self.layers) != sorted(set(self.layers)) or not self.layers or self.layers[0] < 1:
            raise UserError(f"layers: {self.layers} must be increasing block numbers, counted from 1")
        if self.schedule is not None and len(self.schedule) != len(self.layers):
            raise UserError(
                f"schedule: {len(self.schedule)} shares for {len(self.layers)} pruning blocks; give one for each"
            )
        if self.layers[-1] > self.depth:
            raise UserError(f"layers: block {self.layers[-1]} does not exist in a model with {self.depth} blocks")


class Reducer(nn.Module):
    """Base of all methods: by itself it removes nothing.

    Attributes:
        name: how params.yaml and the registry call the method.
        title: how a table calls it.
        fixed_count: whether every image ends with exactly K patches.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    fixed_count: ClassVar[bool] = True

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__()
        self.settings = settings
        self.keep_rate = settings.keep_rate

    def extra_prefix(self, batch: int, patches: int) -> Tensor | None:
        """Tokens that join behind the class token `(B, r, d)`; None for no token."""
        return None

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """Runs block `layer` (from 1) and removes what the method removes there."""
        return run_block(block, tokens)

    def read(self, tokens: Tokens, state: ForwardState) -> Tensor:
        """The complete grid at a read point `(B, N_1, d)`; by default through the common recovery."""
        assert state.recovery is not None
        return state.recovery.reconstruct(tokens)

    def set_progress(self, progress: float) -> None:
        """Tells the share of the training that is done, in [0, 1]."""

    def added_parameters(self) -> int:
        """Parameters that the method adds to the model at inference, counted from the module."""
        return sum(parameter.numel() for parameter in self.parameters())


class FixedSchedule(Reducer):
    """Base of methods that leave the same number of patches in every image after each pruning block."""

    def schedule(self, patches: int) -> list[int]:
        """Patches left after each pruning block, not increasing; the last is K.

        By default every block keeps the same share rho^(1/M), as the public EViT and DynamicViT do: 155, 123, 98 of 196
        patches at rho = 0.5.
        """
        stages = len(self.settings.layers)
        final = keep_count(patches, self.keep_rate)
        shares = (self.keep_rate ** (stage / stages) for stage in range(1, stages))
        return [max(int(patches * share), final) for share in shares] + [final]

    def count_after(self, layer: int, tokens: Tokens, state: ForwardState) -> int | None:
        """Patches to leave after block `layer`; None where nothing is to be removed."""
        if layer not in self.settings.layers:
            return None
        count = self.schedule(state.patches)[self.settings.layers.index(layer)]
        if count == tokens.layout.width:
            state.note(layer, tokens, tokens)
            return None
        return count


def remove(
    layer: int,
    tokens: Tokens,
    keep: Tensor,
    counts: Sequence[int],
    state: ForwardState,
    keys: Tensor | None = None,
    scale: Tensor | None = None,
    scores: Tensor | None = None,
) -> tuple[Tensor, Tokens]:
    """Drops patches from the sequence and writes down what recovery and trace need.

    Args:
        layer: the block, from 1.
        tokens: candidates.
        keep: what stays of the padded grid `(B, N)`.
        counts: how many stay in each image, on the host.
        state: the forward pass.
        keys: projected keys of all rows `(T, H, d_h)`; needed when a dense head will read.
        scale: recovery scale of each image `(B,)`, for a learned scale.
        scores: selection scores `(B, N)`, for the score matching.

    Returns:
        The rows that stay and the shorter tokens.
    """
    if state.recovery is not None:
        assert keys is not None
        state.recovery.store(layer, tokens, keep, counts, keys, scale, scores)
    rows, survivors = tokens.survivors(keep, counts)
    state.note(layer, tokens, survivors)
    return rows, survivors
