"""Packed token sequences: which row of a token matrix belongs to which image and patch.

Every image keeps its prefix rows (class token, register) and its surviving patches, as a rule in ascending original
order. All rows of a batch lie one after the other in one matrix `(T, d)`, so that images with different counts need no
padding. Where all images have the same count the matrix is a plain `(B, S, d)` tensor in disguise and treated as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tap.encoder.layout import Layout, true_positions
from tap.encoder.patch_positions import PatchPositions


@dataclass(frozen=True)
class Tokens:
    """The states of a batch between two blocks.

    Attributes:
        x: states `(T, d)`.
        layout: which row is whose.
        index: original patch index on the padded grid `(B, N)`, int64 (padding repeats the last one). Ascending, except
            under a method that merges, whose tokens bear the index of one of their patches; a token that stands for no
            single patch bears N_1 or more.
        patch_positions: where the rows lie on the patch grid, for blocks that ask (None where the size was not given).
    """

    x: Tensor
    layout: Layout
    index: Tensor
    patch_positions: PatchPositions | None = None

    @classmethod
    def dense(cls, x: Tensor, prefix: int, size: tuple[int, int] | None = None) -> Tokens:
        """Wraps the embedded batch `(B, prefix + N, d)` of images with `size` patch rows and columns."""
        batch, rows, width = x.shape
        layout = Layout(prefix, (rows - prefix,) * batch, tuple(range(batch)), x.device)
        index = torch.arange(rows - prefix, device=x.device).expand(batch, -1)
        positions = None if size is None else PatchPositions(layout, index.reshape(-1), size)
        return cls(x.reshape(-1, width), layout, index, positions)

    @property
    def rectangle(self) -> Tensor:
        """The states as `(B, prefix + N, d)`; only for a uniform layout."""
        return self.x.view(self.layout.batch, -1, self.x.shape[-1])

    def with_states(self, x: Tensor) -> Tokens:
        """The same rows with other states."""
        return replace(self, x=x.reshape(self.x.shape[0], -1))

    def grid(self, rows: Tensor) -> Tensor:
        """Spreads row values `(T, ...)` on the padded patch grid `(B, N, ...)`; padding repeats the last patch."""
        if self.layout.uniform:
            return rows.view(self.layout.batch, -1, *rows.shape[1:])[:, self.layout.prefix :]
        return rows.index_select(0, self.layout.grid_rows.reshape(-1)).view(*self.index.shape, *rows.shape[1:])

    def survivors(self, keep: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tokens]:
        """Drops patches. Gather of Alg. S2: what stays keeps its original order (Eq. 6).

        Args:
            keep: which patches of the padded grid stay `(B, N)`, bool; False on padding.
            counts: how many stay in each image, on the host, so that nothing has to be read back from the device.

        Returns:
            The rows that stay, in their new storage order `(T',)`, and the shorter tokens.
        """
        kept = true_positions(keep.reshape(-1), sum(counts))
        return self._take(self.layout.grid_rows.reshape(-1)[kept], self.index.reshape(-1)[kept], counts)

    def pick(self, columns: Tensor, counts: Sequence[int]) -> Tokens:
        """Takes patches in a given order, behind all prefix rows.

        Args:
            columns: columns of the padded grid `(B, N')`; those behind an image's count are not read.
            counts: how many each image takes, on the host.
        """
        taken = Layout.build(0, counts, self.layout.device)
        rows, index = self.layout.grid_rows.gather(1, columns), self.index.gather(1, columns)
        return self._take(taken.real_cells(rows), taken.real_cells(index), counts)[1]

    def positions(self, patches: int) -> Tensor:
        """Cell of each patch in the grids of all images laid end to end, `patches` cells each `(sum of counts,)`."""
        origin = torch.arange(self.layout.batch, device=self.layout.device)[:, None] * patches
        return self.layout.real_cells(origin + self.index)

    def _take(self, patch_rows: Tensor, index: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tokens]:
        """All prefix rows and some patches, given by row and index image by image in batch order `(sum of counts,)`."""
        layout = Layout.build(self.layout.prefix, counts, self.layout.device)
        positions = None if self.patch_positions is None else PatchPositions(layout, index, self.patch_positions.size)
        if layout.uniform:
            prefix_rows = self.layout.starts[:, None] + torch.arange(layout.prefix, device=layout.device)
            rows = torch.cat([prefix_rows, patch_rows.view(layout.batch, -1)], dim=1).reshape(-1)
            return rows, Tokens(self.x.index_select(0, rows), layout, index.view(layout.batch, -1), positions)
        rows = torch.empty(layout.rows, dtype=torch.int64, device=layout.device)
        for column in range(layout.prefix):
            rows[layout.prefix_rows(column)] = self.layout.prefix_rows(column)
        rows[layout.patch_rows] = patch_rows
        columns = torch.minimum(torch.arange(layout.width, device=layout.device), layout.counts_tensor[:, None] - 1)
        first = layout.counts_tensor.cumsum(0) - layout.counts_tensor
        return rows, Tokens(self.x.index_select(0, rows), layout, index[first[:, None] + columns], positions)
