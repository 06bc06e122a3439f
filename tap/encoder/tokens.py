"""Packed token sequences: which row of a token matrix belongs to which image and patch.

Every image keeps its prefix rows (class token, register) and its surviving patches, as a rule in ascending original
order. All rows of a batch lie one after the other in one matrix `(T, d)`, so that images with different counts need no
padding. Where all images have the same count the matrix is a plain `(B, S, d)` tensor in disguise and treated as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from tap.encoder.places import Places


@dataclass(frozen=True)
class Layout:
    """Where the rows of each image are.

    Attributes:
        prefix: rows in front of each image's patches.
        counts: patches of each image, on the host.
        order: image numbers in the order in which their rows are stored. Images of one length stand side by side where
            the attention kernel works length by length; otherwise it is 0, 1, 2, ...
        device: where index tensors are made.
    """

    prefix: int
    counts: tuple[int, ...]
    order: tuple[int, ...]
    device: torch.device

    @classmethod
    def build(cls, prefix: int, counts: Sequence[int], device: torch.device) -> Layout:
        """Lays the images out for the kernel of `device`: by length on a CPU, in batch order otherwise."""
        images = range(len(counts))
        order = sorted(images, key=lambda image: counts[image]) if device.type == "cpu" else images
        return cls(prefix, tuple(counts), tuple(order), device)

    @property
    def batch(self) -> int:
        """Number of images."""
        return len(self.counts)

    @property
    def uniform(self) -> bool:
        """Whether every image has the same number of patches (then `order` is the batch order)."""
        return min(self.counts) == max(self.counts)

    @property
    def width(self) -> int:
        """Columns of the padded patch grid: the largest patch count."""
        return max(self.counts)

    @property
    def longest(self) -> int:
        """Rows of the longest image."""
        return self.width + self.prefix

    @property
    def rows(self) -> int:
        """Total number of rows T."""
        return sum(self.counts) + self.prefix * self.batch

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """(number of images, rows per image) of each stretch of equally long neighbours, in storage order."""
        runs: list[tuple[int, int]] = []
        for image in self.order:
            length = self.counts[image] + self.prefix
            if runs and runs[-1][1] == length:
                runs[-1] = (runs[-1][0] + 1, length)
            else:
                runs.append((1, length))
        return runs

    @cached_property
    def counts_tensor(self) -> Tensor:
        """Patches per image `(B,)`, int64."""
        return on_device(self.counts, self.device)

    @cached_property
    def starts(self) -> Tensor:
        """First row of each image `(B,)`, by image number."""
        starts = [0] * self.batch
        row = 0
        for image in self.order:
            starts[image] = row
            row += self.counts[image] + self.prefix
        return on_device(starts, self.device)

    @cached_property
    def cu_seqlens(self) -> Tensor:
        """Cumulative sequence lengths `(B + 1,)`, int32, in storage order, for variable-length kernels."""
        ends = [0]
        for image in self.order:
            ends.append(ends[-1] + self.counts[image] + self.prefix)
        return on_device(ends, self.device, torch.int32)

    @cached_property
    def image(self) -> Tensor:
        """Image number of every row `(T,)`."""
        lengths = on_device([self.counts[image] + self.prefix for image in self.order], self.device)
        return torch.repeat_interleave(on_device(self.order, self.device), lengths, output_size=self.rows)

    @cached_property
    def valid(self) -> Tensor | None:
        """Which cells of the padded grid hold a patch `(B, N)`; None where all do."""
        if self.uniform:
            return None
        return torch.arange(self.width, device=self.device) < self.counts_tensor[:, None]

    @cached_property
    def grid_rows(self) -> Tensor:
        """Row of every cell of the padded patch grid `(B, N)`; padding repeats the image's last row."""
        columns = torch.arange(self.width, device=self.device)
        if not self.uniform:
            columns = torch.minimum(columns, self.counts_tensor[:, None] - 1)
        return self.starts[:, None] + self.prefix + columns

    @cached_property
    def patch_rows(self) -> Tensor:
        """Rows that hold patches, image by image in batch order `(sum of counts,)`."""
        return self.real_cells(self.grid_rows)

    @cached_property
    def _real(self) -> Tensor | None:
        """Cells of the padded grid that hold a patch `(sum of counts,)`; None where all do."""
        return None if self.valid is None else true_positions(self.valid.reshape(-1), sum(self.counts))

    def real_cells(self, grid: Tensor) -> Tensor:
        """What a padded grid `(B, N, ...)` holds for patches, image by image in batch order `(sum of counts, ...)`."""
        cells = grid.flatten(0, 1)
        return cells if self._real is None else cells.index_select(0, self._real)

    def prefix_rows(self, column: int) -> Tensor:
        """Row of prefix token `column` of each image `(B,)`."""
        return self.starts + column


@dataclass(frozen=True)
class Tokens:
    """The states of a batch between two blocks.

    Attributes:
        x: states `(T, d)`.
        layout: which row is whose.
        index: original patch index on the padded grid `(B, N)`, int64 (padding repeats the last one). Ascending, except
            under a method that merges, whose tokens bear the index of one of their patches; a token that stands for no
            single patch bears N_1 or more.
        places: where the rows lie on the patch grid, for blocks that ask (None where the size was not given).
    """

    x: Tensor
    layout: Layout
    index: Tensor
    places: Places | None = None

    @classmethod
    def dense(cls, x: Tensor, prefix: int, size: tuple[int, int] | None = None) -> Tokens:
        """Wraps the embedded batch `(B, prefix + N, d)` of images with `size` patch rows and columns."""
        batch, rows, width = x.shape
        layout = Layout(prefix, (rows - prefix,) * batch, tuple(range(batch)), x.device)
        index = torch.arange(rows - prefix, device=x.device).expand(batch, -1)
        places = None if size is None else Places(layout, index.reshape(-1), size)
        return cls(x.reshape(-1, width), layout, index, places)

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
        places = None if self.places is None else Places(layout, index, self.places.size)
        if layout.uniform:
            prefix_rows = self.layout.starts[:, None] + torch.arange(layout.prefix, device=layout.device)
            rows = torch.cat([prefix_rows, patch_rows.view(layout.batch, -1)], dim=1).reshape(-1)
            return rows, Tokens(self.x.index_select(0, rows), layout, index.view(layout.batch, -1), places)
        rows = torch.empty(layout.rows, dtype=torch.int64, device=layout.device)
        for column in range(layout.prefix):
            rows[layout.prefix_rows(column)] = self.layout.prefix_rows(column)
        rows[layout.patch_rows] = patch_rows
        columns = torch.minimum(torch.arange(layout.width, device=layout.device), layout.counts_tensor[:, None] - 1)
        first = layout.counts_tensor.cumsum(0) - layout.counts_tensor
        return rows, Tokens(self.x.index_select(0, rows), layout, index[first[:, None] + columns], places)


def true_positions(mask: Tensor, count: int) -> Tensor:
    """Indices of the `count` true entries of a flat mask, without reading their number back from the device."""
    return torch.nonzero_static(mask, size=count).squeeze(1)


def on_device(values: Sequence[int], device: torch.device, dtype: torch.dtype = torch.int64) -> Tensor:
    """Whole numbers of the host as a tensor `(len(values),)`, without waiting for the device."""
    # A copy from pageable memory would wait for all that the GPU still has to do; one from pinned memory does not.
    host = torch.tensor(values, dtype=dtype, pin_memory=device.type == "cuda")
    return host.to(device, non_blocking=True)
