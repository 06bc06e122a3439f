"""Decomposed relative position (ViTDet), folded exactly into longer queries and keys.

A query gets the bias of every row and every column of its frame as further entries, a key a one where its own row and
its own column are. The logit q k / sqrt(d_h) + h[y] + w[x] becomes one product, [q / sqrt(d_h), h, w] times
[k, onehot(y), onehot(x)]. So any kernel serves, for ragged groups too, and no table of pairs is made.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Placed(Protocol):
    """Places of rows inside a frame, as `tap.encoder.patch_positions.Frame` has them."""

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of the frame."""

    @property
    def one_hot(self) -> Tensor:
        """Row and column of each place `(T, extent[0] + extent[1])`."""

    @property
    def steps(self) -> tuple[Tensor, Tensor]:
        """For both axes, entry of the relative table from each row to each place `(T, extent)`."""


def fold(query: Tensor, key: Tensor, tables: tuple[Tensor, Tensor], frame: Placed) -> tuple[Tensor, Tensor]:
    """Queries and keys whose plain product is the scaled logit plus the bias of the pair's distance.

    A row without a place (the register) has zeros in all its pairs.

    Args:
        query, key: `(T, H, d_h)`, rows of the frame.
        tables: learned vectors by vertical and by horizontal distance, `(2 n - 1, d_h)` for a side of n patches;
            interpolated where the frame has another extent.
        frame: the places of the rows.

    Returns:
        `(T, H, d_h + extent[0] + extent[1])`, to be multiplied without a scale.
    """
    place = frame.one_hot.to(key.dtype)[:, None].expand(-1, key.shape[1], -1)
    return _longer_queries(query, tables, frame), torch.cat([key, place], dim=-1)


def _longer_queries(query: Tensor, tables: tuple[Tensor, Tensor], frame: Placed) -> Tensor:
    bias = [
        _bias(query, resize_table(table, 2 * length - 1), step)
        for table, length, step in zip(tables, frame.extent, frame.steps, strict=True)
    ]
    return torch.cat([query * query.shape[-1] ** -0.5, *bias], dim=-1)


def resize_table(table: Tensor, length: int) -> Tensor:
    """A relative table `(L, d_h)` for another number of distances, by linear interpolation as in public ViTDet."""
    if len(table) == length:
        return table
    return F.interpolate(table.t()[None], size=length, mode="linear")[0].t()


def _bias(query: Tensor, table: Tensor, step: Tensor) -> Tensor:
    """Products of each query with the vectors of the distances from its place to all others `(T, H, extent)`."""
    # All distances, of which every row takes a stretch; the last entry is what rows without a place take.
    products = query @ F.pad(table, (0, 0, 0, 1)).t().to(query.dtype)
    return products.gather(-1, step[:, None].expand(-1, query.shape[1], -1))
