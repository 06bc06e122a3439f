"""Which row of a token matrix belongs to which image, where images of different lengths lie one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


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


def true_positions(mask: Tensor, count: int) -> Tensor:
    """Indices of the `count` true entries of a flat mask, without reading their number back from the device."""
    return torch.nonzero_static(mask, size=count).squeeze(1)


def on_device(values: Sequence[int], device: torch.device, dtype: torch.dtype = torch.int64) -> Tensor:
    """Whole numbers of the host as a tensor `(len(values),)`, without waiting for the device."""
    # A copy from pageable memory would wait for all that the GPU still has to do; one from pinned memory does not.
    host = torch.tensor(values, dtype=dtype, pin_memory=device.type == "cuda")
    return host.to(device, non_blocking=True)
