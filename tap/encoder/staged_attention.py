"""Attention of a stage on packed rows: over whole images, and within the windows of a ViTDet trunk.

A window has a cell for each of its places, whatever it still holds, so that its shape never changes: rows go to their
cells, attention sees those that hold a patch, and each row takes its own result back. What a place decides (relative
position, window, cell) is made once for a grid.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from tap.encoder.blocks import apply_mlp, project_back
from tap.encoder.patch_positions import place_steps
from tap.encoder.relative import fold
from tap.encoder.staged_packing import Packing, Shape


class Places(NamedTuple):
    """Relative position of every place of a frame, as `tap.encoder.relative.fold` takes it of rows.

    Attributes:
        extent: rows and columns of the frame.
        steps: for both axes, entry of the relative table from each place to each `(N + 1, extent)`.
        one_hot: row and column of each place `(N + 1, extent[0] + extent[1])`; the last line is that of no place.
    """

    extent: tuple[int, int]
    steps: tuple[Tensor, Tensor]
    one_hot: Tensor

    def of(self, place: Tensor) -> Places:
        """Those of rows."""
        return Places(self.extent, (self.steps[0][place], self.steps[1][place]), self.one_hot[place])


class Grid(NamedTuple):
    """The places of an image's patches.

    Attributes:
        whole: with the image as the frame.
        window: with the window as the frame; None without windows.
        cell: cell of each place `(N + 1,)`, window after window; the number of cells for no place.
        cells: of an image.
        side: patches per side of a window.
    """

    whole: Places
    window: Places | None
    cell: Tensor
    cells: int
    side: int


def grid_of(size: tuple[int, int], side: int | None, device: torch.device) -> Grid:
    """The places of a grid of patches that is cut into windows from its upper left corner."""
    place = torch.arange(size[0] * size[1], device=device)
    y, x = place // size[1], place % size[1]
    whole = _places(y, x, size)
    if side is None:
        return Grid(whole, None, place, 0, 0)
    down, across = (-(-length // side) for length in size)
    cells = down * across * side * side
    cell = ((y // side) * across + x // side) * side * side + (y % side) * side + x % side
    return Grid(whole, _places(y % side, x % side, (side, side)), F.pad(cell, (0, 1), value=cells), cells, side)


def finish(
    block: Any,
    states: Tensor,
    hidden: Tensor,
    operands: tuple[Tensor, Tensor, Tensor],
    packing: Packing,
    shape: Shape,
    grid: Grid | None,
) -> Tensor:
    """Attention, projection and MLP of a block on packed rows.

    Args:
        block: the transformer block.
        states: `(C, d)`.
        hidden: normalised states.
        operands: query, key and value `(C, H, d_h)`.
        packing: where the rows are.
        shape: of the packed matrix.
        grid: places of the patches; None in a plain ViT.
    """
    new = states + block.ls1(project_back(block.attn, hidden, _attended(block.attn, operands, packing, shape, grid)))
    new = new + block.ls2(apply_mlp(block.mlp, block.norm2(new)))
    if grid is None or block.attn.side is None:
        return new
    assert packing.place is not None
    return torch.where((packing.place < len(grid.cell) - 1)[:, None], new, states)  # the register is in no window


def _attended(
    attn: Any, operands: tuple[Tensor, Tensor, Tensor], packing: Packing, shape: Shape, grid: Grid | None
) -> Tensor:
    query, key, value = operands
    if grid is None:
        return _whole(query, key, value, packing, shape, None)
    assert packing.place is not None
    frame, scale = grid.whole if attn.side is None else grid.window, None
    assert frame is not None
    if attn.tables is not None:
        query, key = fold(query, key, attn.tables, frame.of(packing.place))
        scale = 1.0
    if attn.side is None:
        return _whole(query, key, value, packing, shape, scale)
    return _within_windows(query, key, value, packing, grid, scale)


def _whole(query: Tensor, key: Tensor, value: Tensor, packing: Packing, shape: Shape, scale: float | None) -> Tensor:
    """Every image among its own rows `(C, H * d_h)`."""
    query, key, value, width, scale = _equally_wide(query, key, value, scale)
    if shape.exact:
        batch = len(packing.lengths)
        query, key, value = (part.unflatten(0, (batch, -1)).transpose(1, 2) for part in (query, key, value))
        out = F.scaled_dot_product_attention(query, key, value, scale=scale)[..., :width]
        return out.transpose(1, 2).reshape(shape.capacity, -1)
    assert packing.ragged is not None
    ends, cells, seen, back = packing.ragged
    if query.is_cuda and query.dtype in (torch.float16, torch.bfloat16):
        longest = max(shape.longest, shape.capacity - len(packing.lengths))  # the spare rows are a sequence too
        packed = varlen_attn(query, key, value, ends, ends, longest, longest, scale=scale)
        assert isinstance(packed, Tensor)
        return packed[..., :width].flatten(1)
    query, key, value = (part[cells].transpose(1, 2) for part in (query, key, value))
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scale)[..., :width]
    return out.transpose(1, 2).flatten(0, 1).index_select(0, back).flatten(1)


def _within_windows(
    query: Tensor, key: Tensor, value: Tensor, packing: Packing, grid: Grid, scale: float | None
) -> Tensor:
    """Every patch among those of its window `(C, H * d_h)`; rows without a place get what nobody reads."""
    assert packing.place is not None
    query, key, value, width, scale = _equally_wide(query, key, value, scale)
    batch, area = len(packing.lengths), grid.side * grid.side
    image = (packing.position // packing.row.shape[1]).clamp(max=batch - 1)
    own = grid.cell[packing.place]
    total = batch * grid.cells
    cell = torch.where(own < grid.cells, image * grid.cells + own, total)

    def spread(part: Tensor) -> Tensor:
        whole = part.new_zeros(total + 1, *part.shape[1:]).index_copy(0, cell, part)
        return whole[:total].unflatten(0, (-1, area)).transpose(1, 2)

    seen = cell.new_zeros(total + 1, dtype=torch.bool).index_fill(0, cell, True)[:total].view(-1, 1, 1, area)
    out = F.scaled_dot_product_attention(spread(query), spread(key), spread(value), attn_mask=seen, scale=scale)
    return out[..., :width].transpose(1, 2).flatten(0, 1)[cell.clamp(max=total - 1)].flatten(1)


def _equally_wide(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None
) -> tuple[Tensor, Tensor, Tensor, int, float | None]:
    """Operands for kernels of a GPU that want one width, a multiple of 8; with the width of the values."""
    width = value.shape[-1]
    if query.shape[-1] == width or not query.is_cuda:
        return query, key, value, width, scale
    common = -(-query.shape[-1] // 8) * 8
    query, key, value = (F.pad(part, (0, common - part.shape[-1])) for part in (query, key, value))
    return query, key, value, width, scale


def _places(y: Tensor, x: Tensor, extent: tuple[int, int]) -> Places:
    """Places with a last line for none."""
    y, x = (F.pad(part, (0, 1), value=-1) for part in (y, x))
    columns = torch.arange(max(extent), device=y.device)
    one_hot = torch.cat([y[:, None] == columns[: extent[0]], x[:, None] == columns[: extent[1]]], dim=1)
    return Places(extent, (place_steps(y, extent[0]), place_steps(x, extent[1])), one_hot)
