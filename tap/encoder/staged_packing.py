"""Packed rows of a stage: how many there can be, and where each one is."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

GRAIN = 0.02
"""A capacity is a multiple of this share of the complete batch's rows: few shapes, few spare rows."""


class Shape(NamedTuple):
    """Static numbers of a packed stage.

    Attributes:
        capacity: rows of the packed matrix C.
        longest: no image has more rows.
        exact: whether every image has `longest` rows, without spare ones.
    """

    capacity: int
    longest: int
    exact: bool


class Ragged(NamedTuple):
    """Sequences of different lengths for both kinds of kernels, made once for a stage.

    Attributes:
        ends: cumulative lengths, the dummy sequence of spare rows last `(B + 2,)`, int32.
        cells: row of each cell of the images padded to the longest `(B, W)`.
        seen: which cells hold a row `(B, 1, 1, W)`, bool.
        back: cell of each row `(C,)`; any for a spare one.
    """

    ends: Tensor
    cells: Tensor
    seen: Tensor
    back: Tensor


class Packing(NamedTuple):
    """Where the rows of a packed matrix are.

    Attributes:
        position: position of each row in the complete sequences `(C,)`, laid end to end; B S for a spare row.
        row: row of each position `(B, S)`; any row for a position that is not alive.
        lengths: rows of each image `(B,)`.
        ragged: how attention finds the images; None in a rectangle.
        place: patch index of each row `(C,)`, N for a row without one; only where places count.
    """

    position: Tensor
    row: Tensor
    lengths: Tensor
    ragged: Ragged | None = None
    place: Tensor | None = None

    def placed(self, prefix: int) -> Packing:
        """With the place of each row."""
        length, rows = self.row.shape[1], self.row.numel()
        inside = self.position % length - prefix
        return self._replace(place=torch.where((inside >= 0) & (self.position < rows), inside, length - prefix))


def capacity(lengths: list[int], complete: int) -> Shape:
    """The packed shape of images of these lengths, of `complete` rows before anything was removed."""
    grain = max(1, int(complete * GRAIN))
    fine = max(1, int(complete / len(lengths) * GRAIN))
    total, longest = sum(lengths), max(lengths)
    return Shape(-(-total // grain) * grain, -(-longest // fine) * fine, False)


def pack(alive: Tensor, prefix: int, shape: Shape) -> Packing:
    """Rows of the prefix and of the patches that are alive, image after image, in `shape.capacity` rows.

    Args:
        alive: `(B, N)`, bool.
        prefix: rows in front of each image's patches.
        shape: of the packed matrix.
    """
    whole = torch.cat([alive.new_ones(len(alive), prefix), alive], dim=1)
    there = whole.view(-1)
    row = there.cumsum(0) - 1
    places = torch.arange(there.numel(), device=alive.device)
    position = torch.full((shape.capacity + 1,), there.numel(), device=alive.device)
    position = position.scatter(0, torch.where(there, row, shape.capacity), places)[: shape.capacity]
    lengths = whole.sum(dim=1)
    ragged = None if shape.exact else _ragged(position // whole.shape[1], lengths, shape)
    return Packing(position, row.clamp(min=0).view_as(whole), lengths, ragged)


def _ragged(image: Tensor, lengths: Tensor, shape: Shape) -> Ragged:
    starts = lengths.cumsum(0) - lengths
    ends = torch.cat([starts, lengths.sum()[None], starts.new_full((1,), shape.capacity)]).int()
    columns = torch.arange(shape.longest, device=image.device)
    image = image.clamp(max=len(lengths) - 1)
    place = (torch.arange(shape.capacity, device=image.device) - starts[image]).clamp(max=shape.longest - 1)
    cells = (starts[:, None] + columns).clamp(max=shape.capacity - 1)
    seen = (columns < lengths[:, None])[:, None, None]
    return Ragged(ends, cells, seen, image * shape.longest + place)
