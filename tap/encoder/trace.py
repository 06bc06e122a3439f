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
        holder: for each block that merged, the patch after which the token is named that holds each input position
            `(B, N_1)`, int64, by original index; -1 for a position whose content was removed. Empty for methods that do
            not merge.
    """

    grid: tuple[int, int]
    final_counts: Tensor
    kept: dict[int, Tensor] = field(default_factory=dict)
    removed: dict[int, Tensor] = field(default_factory=dict)
    scales: dict[int, Tensor] = field(default_factory=dict)
    holder: dict[int, Tensor] = field(default_factory=dict)

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

    def record_merge(self, layer: int, before: Tokens, after: Tokens, column: Tensor) -> None:
        """Notes where block `layer` has put what the tokens that entered it held.

        Args:
            layer: block, from 1.
            before: the sequence that entered.
            after: what is left of it.
            column: column of `after` that each column of `before` went into `(B, N)`; -1 for removed ones.
        """
        patches = self.grid[0] * self.grid[1]
        last = self.holder[max(self.holder)] if self.holder else None
        if last is None:
            last = torch.arange(patches, device=column.device).expand(len(column), -1)
        named = torch.where(column < 0, -1, after.index.gather(1, column.clamp(min=0)))
        valid = before.layout.valid
        index = before.index if valid is None else before.index.masked_fill(~valid, patches)
        table = last.new_full((len(column), patches + 1), -1).scatter_(1, index, named)
        self.holder[layer] = torch.where(last < 0, -1, table.gather(1, last.clamp(min=0)))
