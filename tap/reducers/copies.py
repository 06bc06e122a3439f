"""Patches that leave the sequence and come back as they were: the native readout of several methods."""

from __future__ import annotations

import torch
from torch import Tensor

from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens

_MEMORY = "copies"


def keep_copies(tokens: Tokens, state: ForwardState) -> None:
    """Notes the present state of every patch, before some of them leave.

    Args:
        tokens: the states from which patches are about to be removed.
        state: the forward pass, whose memory holds the copies as one grid `(B * N_1, d)`.
    """
    state.memory[_MEMORY] = _onto(state.memory.get(_MEMORY), tokens, state)


def complete_grid(tokens: Tokens, state: ForwardState) -> Tensor:
    """Every position's state `(B, N_1, d)`: the present one of a patch that is here, the copy of one that has left."""
    return _onto(state.memory.get(_MEMORY), tokens, state).view(tokens.layout.batch, state.patches, -1)


def rejoin(tokens: Tokens, state: ForwardState) -> Tokens:
    """All patches in original order again, behind the prefix rows of `tokens`."""
    if tokens.layout.width == state.patches and tokens.layout.uniform:
        return tokens
    layout, grid = tokens.layout, complete_grid(tokens, state)
    columns = [tokens.x.index_select(0, layout.prefix_rows(column))[:, None] for column in range(layout.prefix)]
    return Tokens.dense(torch.cat([*columns, grid], dim=1), layout.prefix, state.grid)


def _onto(grid: Tensor | None, tokens: Tokens, state: ForwardState) -> Tensor:
    layout = tokens.layout
    patches = tokens.x.index_select(0, layout.patch_rows)
    if len(patches) == layout.batch * state.patches:
        return patches
    assert grid is not None, "patches have left without a copy"
    return grid.index_copy(0, tokens.positions(state.patches), patches.to(grid.dtype))
