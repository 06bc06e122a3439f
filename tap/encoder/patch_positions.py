"""Where rows lie on the patch grid, and which of them attend to each other (Sec. Sparse window attention).

A frame is a set of rows that are cut into groups, with the place of every row inside its group. The whole image is one
frame: a group per image. Windows of the grid are another: a group per window that still holds a patch, whatever the
other windows hold. Both are made once for a layout and serve all blocks that see it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from tap.encoder.layout import Layout


class Groups(Protocol):
    """Rows stored one group after the other; attention stays inside a group."""

    @property
    def batch(self) -> int:
        """Number of groups."""

    @property
    def uniform(self) -> bool:
        """Whether all groups are known to be equally long."""

    @property
    def longest(self) -> int:
        """No group has more rows."""

    @property
    def runs(self) -> list[tuple[int, int]]:
        """(groups, rows per group) of each stretch of equally long neighbours, in storage order."""

    @property
    def cu_seqlens(self) -> Tensor:
        """Cumulative lengths of the groups `(batch + 1,)`, int32."""


@dataclass(frozen=True)
class Frame:
    """Rows with a place.

    Attributes:
        groups: who attends to whom.
        y, x: place of each row inside its group's frame `(T,)`, int64; -1 for a row without one (the register).
        extent: rows and columns of the frame.
    """

    groups: Groups
    y: Tensor
    x: Tensor
    extent: tuple[int, int]

    @cached_property
    def one_hot(self) -> Tensor:
        """Row and column of each place `(T, extent[0] + extent[1])` as zeros and ones; zeros without a place."""
        places = torch.arange(-1, max(self.extent), device=self.y.device)
        down = self.y[:, None] == places[1 : self.extent[0] + 1]
        across = self.x[:, None] == places[1 : self.extent[1] + 1]
        return torch.cat([down, across], dim=1)

    @cached_property
    def steps(self) -> tuple[Tensor, Tensor]:
        """For both axes, entry of the relative table from each row to each place `(T, extent)`.

        A table has 2 n - 1 entries for distances 1 - n ... n - 1; rows without a place point behind its end.
        """
        return place_steps(self.y, self.extent[0]), place_steps(self.x, self.extent[1])


@dataclass(frozen=True)
class Windows:
    """The rows of a sequence in the order of their windows, without the rows that belong to none.

    Attributes:
        frame: groups and places of the ordered rows.
        rows: where they are in the token matrix `(T',)`. With padding, places that hold no patch are rows as well, and
            all of them point behind the end of the matrix.
        image: image of each row `(T',)`.
        real: positions in `rows` that hold a patch; None where all do.
    """

    frame: Frame
    rows: Tensor
    image: Tensor
    real: Tensor | None

    @cached_property
    def patch_rows(self) -> Tensor:
        """Rows of the token matrix that hold patches, in window order."""
        return self.rows if self.real is None else self.rows.index_select(0, self.real)

    @cached_property
    def patch_image(self) -> Tensor:
        """Image of each of these rows."""
        return self.image if self.real is None else self.image.index_select(0, self.real)


@dataclass(frozen=True)
class _WindowGroups:
    """Windows of all images, empty ones included (they have no rows, so no kernel sees them)."""

    counts: Tensor
    longest: int

    @property
    def batch(self) -> int:
        return len(self.counts)

    @property
    def uniform(self) -> bool:
        return False

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        runs: list[tuple[int, int]] = []
        for length in self.counts.tolist():
            if runs and runs[-1][1] == length:
                runs[-1] = (runs[-1][0] + 1, length)
            elif length:
                runs.append((1, length))
        return runs

    @cached_property
    def cu_seqlens(self) -> Tensor:
        return torch.cat([self.counts.new_zeros(1), self.counts.cumsum(0)]).int()


@dataclass(frozen=True)
class PatchPositions:
    """PatchPositions of all rows of a layout.

    Attributes:
        layout: which row is whose.
        patches: original patch index of every patch, image by image in batch order `(sum of counts,)`, int64.
        size: patch rows and columns of the input.
    """

    layout: Layout
    patches: Tensor
    size: tuple[int, int]
    _windows: dict[tuple[int, bool], Windows] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def whole(self) -> Frame:
        """The image as one frame, prefix rows without a place."""
        nowhere = self.patches.new_full((self.layout.rows,), -1)
        y = nowhere.index_copy(0, self.layout.patch_rows, self.patches // self.size[1])
        x = nowhere.index_copy(0, self.layout.patch_rows, self.patches % self.size[1])
        return Frame(self.layout, y, x, self.size)

    def windows(self, side: int, padded: bool = False) -> Windows:
        """Patches by the window that holds their original position; prefix rows are in none.

        Args:
            side: patches per side of a window. The first one starts at the grid's upper left corner.
            padded: whether places beyond the grid's edge, up to whole windows, are rows too.
        """
        key = side, padded
        if key not in self._windows:
            self._windows[key] = self._cut(side, padded)
        return self._windows[key]

    def _cut(self, side: int, padded: bool) -> Windows:
        device, batch = self.patches.device, self.layout.batch
        down, across = (-(-length // side) for length in self.size)
        image = torch.repeat_interleave(
            torch.arange(batch, device=device), self.layout.counts_tensor, output_size=len(self.patches)
        )
        y, x = self.patches // self.size[1], self.patches % self.size[1]
        rows = self.layout.patch_rows
        outside = (down * across * side * side - self.size[0] * self.size[1]) * batch if padded else 0
        if outside:
            beyond = _beyond(self.size, (down * side, across * side), device)
            image = torch.cat([image, torch.arange(batch, device=device).repeat_interleave(len(beyond))])
            y = torch.cat([y, (beyond // (across * side)).repeat(batch)])
            x = torch.cat([x, (beyond % (across * side)).repeat(batch)])
            rows = torch.cat([rows, rows.new_full((outside,), self.layout.rows)])
        group = (image * down + y // side) * across + x // side
        total = batch * down * across
        counts = torch.zeros(total, dtype=torch.int64, device=device).index_add_(0, group, torch.ones_like(group))
        key = group
        if device.type == "cpu":  # windows of one length stand side by side, as images do (`Layout.build`)
            key = counts[group] * total + group
            counts = counts.sort().values
        order = key.argsort(stable=True)
        y, x = y.index_select(0, order) % side, x.index_select(0, order) % side
        groups = _WindowGroups(counts, side * side)
        real = None
        if outside:
            real = torch.nonzero_static(order < len(self.patches), size=len(self.patches)).squeeze(1)
        return Windows(
            Frame(groups, y, x, (side, side)), rows.index_select(0, order), image.index_select(0, order), real
        )


def _beyond(size: tuple[int, int], padded: tuple[int, int], device: torch.device) -> Tensor:
    """PatchPositions of the padded grid outside the grid, as indices of the padded one."""
    outside = torch.ones(padded, dtype=torch.bool, device=device)
    outside[: size[0], : size[1]] = False
    return torch.nonzero_static(outside.view(-1), size=padded[0] * padded[1] - size[0] * size[1]).squeeze(1)


def place_steps(place: Tensor, length: int) -> Tensor:
    """Entry of a relative table of `2 length - 1` distances from each place to all along an axis `(T, length)`.

    A place of -1 is none, and points behind the table's end.
    """
    step = place[:, None] - torch.arange(length, device=place.device) + (length - 1)
    return step.masked_fill(place[:, None] < 0, 2 * length - 1)
