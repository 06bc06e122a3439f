"""What one forward pass decided, for people and for the studies."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tap.encoder.tokens import Tokens


@dataclass
class Trace:
    """Decisions of one forward pass.

    Attributes:
        grid: patch rows and columns of the input, (N_y, N_x).
        final_counts: patches of each image that reach the last block `(B,)`, int64.
        kept: for each reducing block, the patches that were left after it `(B, N_1)`, bool, by original index; a merged
            token marks the one patch that it is named after.
        removed: for each reducing block, how many patches it removed `(B,)`, int64; zeros where it had nothing to do,
            so that traces of different batches fit together.
        scales: for each block that stored offsets, the recovery scale alpha `(B,)`, float32.
    """

    grid: tuple[int, int]
    final_counts: Tensor
    kept: dict[int, Tensor] = field(default_factory=dict)
    removed: dict[int, Tensor] = field(default_factory=dict)
    scales: dict[int, Tensor] = field(default_factory=dict)

    @property
    def removals(self) -> Tensor:
        """Patches removed per image and reducing block `(B, M)`, int64; `(B, 0)` for a method without any."""
        if not self.removed:
            return self.final_counts.new_zeros(len(self.final_counts), 0)
        return torch.stack([self.removed[layer] for layer in sorted(self.removed)], dim=1)

    @property
    def shares(self) -> Tensor:
        """Share of each image's removal budget spent at each reducing block `(B, M)`, float64; rows sum to 1."""
        removals = self.removals.double()
        return removals / removals.sum(dim=1, keepdim=True).clamp(min=1)

    def kept_indices(self, layer: int) -> list[Tensor]:
        """Original indices of the patches left after block `layer` (from 1), one ascending tensor per image."""
        return [row.nonzero().squeeze(1) for row in self.kept[layer]]

    def record(self, layer: int, before: Tokens, after: Tokens) -> None:
        """Notes what block `layer` left of the sequence that entered it."""
        layout = after.layout
        patches = self.grid[0] * self.grid[1]
        kept = torch.zeros(layout.batch, patches + 1, dtype=torch.bool, device=layout.device)
        # Padding repeats an index that is kept anyway; what stands for no single patch falls into the last column.
        kept.scatter_(1, after.index.clamp(max=patches), True)
        self.kept[layer] = kept[:, :patches]
        self.removed[layer] = before.layout.counts_tensor - layout.counts_tensor
