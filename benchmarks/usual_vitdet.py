"""ViTDet's dense trunk as it is usually written: windows padded to full size, relative position as an explicit bias.

The other side of `benchmarks/encoder.py --task det`. It takes the modules of a trunk of this project, and gives its
features where padding acts as keys there too.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tap.encoder.relative import resize_table
from tap.encoder.vitdet import embed_patches


def usual_forward(vit: Any, images: Tensor) -> Tensor:
    """The final grid `(B, N, d)`."""
    patch = vit.patch_embed.patch_size
    size = images.shape[-2] // patch[0], images.shape[-1] // patch[1]
    x = embed_patches(vit, images).unflatten(1, size)
    for block in vit.blocks:
        hidden, side = block.norm1(x), block.attn.side
        if side is not None:
            hidden, padded = _partition(hidden, side)
        hidden = _attention(block.attn, hidden)
        if side is not None:
            hidden = _unpartition(hidden, side, padded, size)
        x = x + hidden
        x = x + block.mlp(block.norm2(x))
    return x.flatten(1, 2)


def _attention(attn: Any, x: Tensor) -> Tensor:
    """Attention over all places of `(B, rows, columns, d)` with a bias for each pair."""
    batch, rows, columns, _ = x.shape
    query, key, value = attn.qkv(x).view(batch, rows * columns, 3, attn.num_heads, -1).permute(2, 0, 3, 1, 4)
    logits = (query * attn.scale) @ key.transpose(-2, -1)
    height, width = (
        resize_table(table, 2 * side - 1)[_distances(side, x.device)]
        for table, side in zip(attn.tables, (rows, columns), strict=True)
    )
    places = query.unflatten(2, (rows, columns))
    by_row = torch.einsum("bhyxc,ykc->bhyxk", places, height).flatten(2, 3)
    by_column = torch.einsum("bhyxc,xkc->bhyxk", places, width).flatten(2, 3)
    logits = (logits.unflatten(-1, (rows, columns)) + by_row[..., None] + by_column[..., None, :]).flatten(-2)
    out = logits.softmax(dim=-1) @ value
    return attn.proj(out.transpose(1, 2).reshape(x.shape))


def _distances(side: int, device: torch.device) -> Tensor:
    place = torch.arange(side, device=device)
    return place[:, None] - place + side - 1


def _partition(x: Tensor, side: int) -> tuple[Tensor, tuple[int, int]]:
    batch, rows, columns, width = x.shape
    x = F.pad(x, (0, 0, 0, -columns % side, 0, -rows % side))
    padded = x.shape[1], x.shape[2]
    x = x.view(batch, padded[0] // side, side, padded[1] // side, side, width).transpose(2, 3)
    return x.reshape(-1, side, side, width), padded


def _unpartition(x: Tensor, side: int, padded: tuple[int, int], size: tuple[int, int]) -> Tensor:
    x = x.view(-1, padded[0] // side, padded[1] // side, side, side, x.shape[-1]).transpose(2, 3)
    return x.reshape(-1, *padded, x.shape[-1])[:, : size[0], : size[1]]
