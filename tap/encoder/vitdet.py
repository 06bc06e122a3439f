"""ViTDet's trunk: a timm ViT whose blocks attend within windows or globally, with decomposed relative position.

Only attention changes, so a plain ViT's weights fit: relative tables start at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch.nn.functional as F
from timm.layers.attention import Attention
from torch import Tensor, nn


class GridAttention(Attention):
    """timm's attention (its modules are taken over) between patches with places.

    `tap.encoder.blocks` runs it: places are not in the states that a module's forward gets.

    Args:
        plain: the attention of a plain block.
        side: patches per side of a window; None attends globally.
        padded: whether places beyond the grid's edge act as keys (zeros before the projection, as in public ViTDet).
        extent: rows and columns for which relative tables are made; None for no relative position.
    """

    def __init__(
        self,
        plain: Attention,
        side: int | None = None,
        padded: bool = False,
        extent: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(plain.qkv.in_features, plain.num_heads, plain.head_dim, device="meta")
        for name, part in plain.named_children():
            setattr(self, name, part)
        self.side = side
        self.padded = padded
        self.rel_pos_h: nn.Parameter | None = None
        self.rel_pos_w: nn.Parameter | None = None
        if extent is not None:
            weight = plain.qkv.weight
            self.rel_pos_h, self.rel_pos_w = (
                nn.Parameter(weight.new_zeros(2 * length - 1, plain.head_dim)) for length in extent
            )

    def forward(self, *_: Any, **__: Any) -> NoReturn:
        """Not for use: `tap.encoder.blocks.run_block` knows the places."""
        raise TypeError("a GridAttention cannot run on states alone; run its block by tap.encoder.blocks.run_block")

    @property
    def tables(self) -> tuple[Tensor, Tensor] | None:
        """The relative tables of both axes; None without relative position."""
        return None if self.rel_pos_h is None or self.rel_pos_w is None else (self.rel_pos_h, self.rel_pos_w)


def place_on_grid(
    vit: Any,
    window: int | None,
    global_blocks: Sequence[int],
    grid: tuple[int, int],
    relative: bool,
    padded: bool = False,
) -> None:
    """Turns the blocks of a plain timm ViT into ViTDet's, in place.

    Args:
        vit: timm `VisionTransformer` without a class token.
        window: patches per side of a window; None makes all blocks global.
        global_blocks: blocks, from 1, that attend globally.
        grid: patch rows and columns for which the tables of global blocks are made.
        relative: whether blocks have relative position.
        padded: whether places beyond the grid's edge act as keys.
    """
    for number, block in enumerate(vit.blocks, start=1):
        side = None if number in global_blocks else window
        extent = grid if side is None else (side, side)
        block.attn = GridAttention(block.attn, side, padded, extent if relative else None)


def on_grid(vit: Any) -> bool:
    """Whether a ViT is a ViTDet trunk."""
    return isinstance(vit.blocks[0].attn, GridAttention)


def embed_patches(vit: Any, images: Tensor) -> Tensor:
    """Patch embedding with absolute positions resized to the image's grid, as public ViTDet does it `(B, N, d)`."""
    patches = vit.patch_embed(images)
    size = patches.shape[1], patches.shape[2]
    positions = resize_positions(vit.pos_embed, vit.patch_embed.grid_size, size)
    return vit.norm_pre(vit.pos_drop(patches.flatten(1, 2) + positions))


def resize_positions(positions: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """Absolute position embeddings `(1, N, d)` of one grid on another, bicubic (timm's resizing has another kernel)."""
    if tuple(old) == tuple(new):
        return positions
    grid = positions.unflatten(1, tuple(old)).permute(0, 3, 1, 2)
    grid = F.interpolate(grid.float(), size=tuple(new), mode="bicubic", align_corners=False)
    return grid.permute(0, 2, 3, 1).flatten(1, 2).to(positions.dtype)
