"""The encoder of a TAP checkpoint that loses one group of patches at the first pruning block, and nothing else.

What a group is worth is what the loss gains without it. The blocks before the first decision run once for all groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tap.encoder.blocks import attend_survivors, project, ragged_incoming_attention, run_block, run_mlp
from tap.encoder.recovery_buffer import RecoveryBuffer
from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.reducers.base import remove
from tap.reducers.tap import Tap


def patch_groups(size: tuple[int, int], side: int) -> NDArray[np.int64]:
    """The group of every patch `(N,)`: the grid cut into `side` x `side` fields as equal as they can be.

    Raises:
        UserError: the grid has fewer rows or columns than fields.
    """
    if side > min(size):
        raise UserError(
            f"controls.choice_side: {side} fields in a row do not fit a grid of {size[0]} x {size[1]} patches; ask for "
            f"at most {min(size)}"
        )
    rows, columns = (np.arange(length) * side // length for length in size)
    return (rows[:, None] * side + columns).ravel()


def group_means(values: NDArray, groups: NDArray) -> NDArray[np.float64]:
    """Mean over the patches of each group `(B, G)` of values `(B, N)`."""
    member = groups[None] == np.arange(groups.max() + 1)[:, None]
    return values.astype(np.float64) @ (member / member.sum(axis=1, keepdims=True)).T


@dataclass
class _Call:
    """The dense states before the first pruning block, and the grids that were read on the way.

    Attributes:
        hidden: normalised states at the first pruning block `(T, d)`.
        keys: their keys there `(T, d)`.
        register: what the register says of every patch there `(B, N)`, float32.
        attention: the attention that every patch receives there `(B, N)`, float32.
    """

    tokens: Tokens
    state: ForwardState
    grids: list[Tensor]
    hidden: Tensor
    keys: Tensor
    register: Tensor
    attention: Tensor


class LeaveOutEncoder(nn.Module):
    """Takes the place of a TAP model's encoder; the rest of the model does not notice.

    Calls are told apart by their number since `rewind`, as in `ControlledEncoder`: windows that slide lose the same
    field each.

    Args:
        encoder: encoder of a trained TAP model.
        side: fields of the patch grid in each direction.

    Raises:
        UserError: the encoder has no register.

    Attributes:
        calls: what the first pass of every call has seen.
    """

    def __init__(self, encoder: SparseEncoder, side: int) -> None:
        super().__init__()
        if not isinstance(encoder.reducer, Tap):
            raise UserError(f"choice: the checkpoint's method is '{encoder.reducer.name}', which has no register")
        self.encoder, self.side = encoder, side
        self.vit, self.reducer = encoder.vit, encoder.reducer
        self.read_blocks = encoder.read_blocks
        self.first = encoder.reducer.settings.layers[0]
        self.group: int | None = None
        self.calls: list[_Call] = []
        self._number = 0

    def new_batch(self) -> None:
        """Forgets the images seen so far."""
        self.calls = []
        self.rewind(None)

    def rewind(self, group: int | None) -> None:
        """The next calls are for the same images again, without another group; None leaves all patches."""
        self.group, self._number = group, 0

    def forward(self, images: Tensor, sample_ids: Tensor | None = None, return_trace: bool = False) -> EncoderOutput:
        """As `SparseEncoder.forward`, without the group that is set; a trace is not kept."""
        if self._number == len(self.calls):
            self.calls.append(self._begin(images, sample_ids))
        call = self.calls[self._number]
        self._number += 1
        grid, ids = call.state.grid, call.state.sample_ids
        recovery = RecoveryBuffer(self.encoder.recovery, grid, ids) if self.read_blocks else None
        state = ForwardState(grid, call.state.patches, ids, recovery, None)
        tokens, grids = self._without(call, state), list(call.grids)
        for layer in range(self.first, len(self.vit.blocks) + 1):
            if layer > self.first:
                tokens = run_block(self.vit.blocks[layer - 1], tokens)
            if recovery is not None and layer in self.read_blocks:
                grids.append(recovery.reconstruct(tokens))
        return EncoderOutput(tokens, grids, grid, None, recovery, {}, tokens.layout.counts)

    def pool(self, output: EncoderOutput) -> Tensor:
        """As `SparseEncoder.pool`."""
        return self.encoder.pool(output)

    def _begin(self, images: Tensor, sample_ids: Tensor | None) -> _Call:
        tokens, state = self.encoder.begin(images, sample_ids)
        grids = []
        for layer in range(1, self.first):
            tokens = run_block(self.vit.blocks[layer - 1], tokens)
            if layer in self.read_blocks:
                grids.append(self.reducer.read(tokens, state))
        block = self.vit.blocks[self.first - 1]
        hidden = block.norm1(tokens.x)
        keys = project(block.attn, hidden, "k")
        rows = tokens.layout.prefix_rows(tokens.layout.prefix - 1)
        register = self.reducer.scores(block, tokens, hidden, keys, rows)
        attention = ragged_incoming_attention(block, tokens, project(block.attn, hidden, "q"), keys)
        return _Call(tokens, state, grids, hidden, keys, register, attention)

    def _without(self, call: _Call, state: ForwardState) -> Tokens:
        """The first pruning block, before whose attention the group is removed."""
        block: Any = self.vit.blocks[self.first - 1]
        tokens = call.tokens
        if self.group is None:
            return run_block(block, tokens)
        stays = torch.from_numpy(patch_groups(state.grid, self.side) != self.group).to(tokens.x.device)
        batch, scale = tokens.layout.batch, None
        if state.recovery is not None and state.recovery.settings.scale == "learned":
            register = tokens.x.index_select(0, tokens.layout.prefix_rows(tokens.layout.prefix - 1))
            scale = self.reducer.controller.recovery_scale(register)
        counts = [int(stays.sum())] * batch
        rows, survivors = remove(
            self.first, tokens, stays.expand(batch, -1), counts, state, call.keys, scale, call.register
        )
        kept = [part.index_select(0, rows) for part in (call.hidden, call.keys)]
        survivors = attend_survivors(block, survivors, kept)
        return run_mlp(block, survivors)
