"""What the blocks of one forward pass share: the budget left, the ids of the images, and what was decided so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from tap.encoder.recovery_buffer import RecoveryBuffer
from tap.encoder.tokens import Tokens
from tap.encoder.trace import Trace


@dataclass
class ForwardState:
    """Mutable companion of one forward pass.

    Attributes:
        grid: patch rows and columns of the input.
        keep_count: patches K that must be left after the last pruning block.
        sample_ids: number of each image in its data set `(B,)`, int64: key of stateless random draws.
        recovery: removal records, for tasks with a dense head.
        trace: decisions, when the caller asked for them.
        memory: what a method carries from block to block, and to its readout and losses.
        final_counts: patches of each image that count as reaching the last block, where they are not simply those that
            the sequence holds at its end; on the host.
    """

    grid: tuple[int, int]
    keep_count: int
    sample_ids: Tensor
    recovery: RecoveryBuffer | None = None
    trace: Trace | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    final_counts: tuple[int, ...] | None = None

    @property
    def patches(self) -> int:
        """Patches N_1 of the input."""
        return self.grid[0] * self.grid[1]

    def note(self, layer: int, before: Tokens, after: Tokens) -> None:
        """Writes a removal into the trace, if there is one."""
        if self.trace is not None:
            self.trace.record(layer, before, after)
