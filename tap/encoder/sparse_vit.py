"""A timm Vision Transformer that runs on fewer and fewer patches (Alg. S1).

The encoder knows how to embed, how to run blocks on packed rows and how to read grids. What is removed, and where, is
the reducer's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from tap.core.budget import keep_count
from tap.encoder.blocks import check_block
from tap.encoder.layout import on_device
from tap.encoder.recovery_buffer import RecoveryBuffer, RecoverySettings
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.encoder.trace import Trace
from tap.encoder.vitdet import embed_patches, on_grid
from tap.errors import UserError


@dataclass(frozen=True)
class EncoderOutput:
    """What a head gets.

    Attributes:
        tokens: states after the last block, before the final norm.
        grids: the complete grid at every read point `(B, N_1, d)`.
        size: patch rows and columns of the grids.
        trace: decisions, if asked for.
        recovery: removal records of a dense pass, None otherwise.
        memory: what the method kept of the pass for its readout and losses.
        final_counts: patches of each image that reach the last block.
    """

    tokens: Tokens
    grids: list[Tensor]
    size: tuple[int, int]
    trace: Trace | None
    recovery: RecoveryBuffer | None
    memory: dict[str, Any]
    final_counts: tuple[int, ...]


class SparseEncoder(nn.Module):
    """Runs a timm ViT block by block under a reducer.

    Args:
        vit: plain timm `VisionTransformer` (its head and final norm stay its own).
        reducer: the method that shortens the sequence (a `tap.reducers.base.Reducer`, which is one layer up).
        read_blocks: blocks, from 1, after which a dense head reads the grid; empty for classification.
        recovery: how a dense read gives removed positions back.

    Raises:
        UserError: the model is not a plain timm ViT, or a read block does not exist.
    """

    def __init__(
        self,
        vit: VisionTransformer,
        reducer: Any,
        read_blocks: Sequence[int] = (),
        recovery: RecoverySettings | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(vit, VisionTransformer):
            raise UserError(f"model: {type(vit).__name__} is not a timm VisionTransformer; name a vit_* model")
        for block in vit.blocks:
            check_block(block, "model")
        if not isinstance(vit.patch_drop, nn.Identity):
            raise UserError(
                "model: patch_drop_rate drops patches before any method sees them; create the model without it"
            )
        outside = [block for block in read_blocks if not 1 <= block <= len(vit.blocks)]
        if outside:
            raise UserError(f"model.read_blocks: {outside} are not blocks of a model with {len(vit.blocks)} blocks")
        self.vit: Any = vit
        self.reducer: Any = reducer
        self.read_blocks = tuple(read_blocks)
        self.recovery = recovery or RecoverySettings()

    def forward(self, images: Tensor, sample_ids: Tensor | None = None, return_trace: bool = False) -> EncoderOutput:
        """Encodes a batch.

        Args:
            images: `(B, C, H, W)`, sides multiples of the patch.
            sample_ids: `(B,)` int64, key of stateless random draws; 0 for all images when not given, so that no result
                depends on an image's place in its batch.
            return_trace: whether to keep what was decided.

        Raises:
            UserError: the image's sides do not fit the patch (or the model's fixed size).
        """
        tokens, state = self.begin(images, sample_ids, return_trace)
        grids = []
        for layer, block in enumerate(self.vit.blocks, start=1):
            tokens = self.reducer.run_block(layer, block, tokens, state)
            if layer in self.read_blocks:
                grids.append(self.reducer.read(tokens, state))
        counts = tokens.layout.counts if state.final_counts is None else state.final_counts
        if state.trace is not None:
            state.trace.final_counts = on_device(counts, tokens.x.device)
        return EncoderOutput(tokens, grids, state.grid, state.trace, state.recovery, state.memory, counts)

    def begin(
        self,
        images: Tensor,
        sample_ids: Tensor | None = None,
        return_trace: bool = False,
        read: bool | None = None,
    ) -> tuple[Tokens, ForwardState]:
        """What enters the first block, and what the blocks of this pass share; arguments and errors as `forward`.

        `read` says whether the pass keeps records for reading grids; None where there are read blocks.
        """
        size = self._grid(images)
        embedded = self._embed(images, size[0] * size[1])
        if sample_ids is None:
            sample_ids = torch.zeros(len(images), dtype=torch.int64, device=images.device)
        prefix = embedded.shape[1] - size[0] * size[1]
        state = ForwardState(
            size,
            keep_count(size[0] * size[1], self.reducer.keep_rate),
            sample_ids,
            RecoveryBuffer(self.recovery, size, sample_ids) if read or (read is None and self.read_blocks) else None,
            Trace(size, sample_ids) if return_trace else None,
        )
        return Tokens.dense(embedded, prefix, size), state

    def pool(self, output: EncoderOutput) -> Tensor:
        """What the model's classifier reads `(B, d)`: the class token, or what timm pools of the surviving patches.

        A method may have a readout of its own.
        """
        own = self.reducer.pool(self.vit, output)
        if own is not None:
            return own
        vit, tokens = self.vit, output.tokens
        if vit.global_pool == "token":
            rows = tokens.x.index_select(0, tokens.layout.prefix_rows(0))
            return vit.fc_norm(vit.norm(rows))
        return vit.fc_norm(vit.pool(self.features(output)))

    def features(self, output: EncoderOutput) -> Tensor:
        """Normalised states as timm's `forward_features` gives them: the model's own prefix rows, then patches.

        The tokens that a method has added are left out. An image with fewer patches than another of its batch is
        filled up with the mean of its own, which neither changes a mean nor a maximum over them.

        Returns:
            `(B, P + N, d)` with the model's P prefix tokens and the N patches of the longest image.

        Raises:
            UserError: counts differ, and the model pools by attention, which filling up would change.
        """
        vit, tokens = self.vit, output.tokens
        layout = tokens.layout
        rows = torch.arange(vit.num_prefix_tokens, device=layout.device) + layout.starts[:, None]
        prefix, patches = vit.norm(tokens.x[rows]), vit.norm(tokens.grid(tokens.x))
        if layout.valid is not None:
            if vit.attn_pool is not None:
                raise UserError(
                    "model: pooling by attention needs equally many patches in all images of a batch; choose a method "
                    "with a fixed count, or pass images one by one"
                )
            real = layout.valid[..., None]
            mean = (patches * real).sum(dim=1, keepdim=True) / layout.counts_tensor[:, None, None]
            patches = torch.where(real, patches, mean.to(patches.dtype))
        return torch.cat([prefix, patches], dim=1)

    def _embed(self, images: Tensor, patches: int) -> Tensor:
        """Patch, position and prefix embedding as timm (or ViTDet) does it, and the register behind the class token."""
        vit = self.vit
        if on_grid(vit):
            x = embed_patches(vit, images)
        else:
            x = vit.norm_pre(vit.patch_drop(vit._pos_embed(vit.patch_embed(images))))
        extra = self.reducer.extra_prefix(len(images), patches)
        if extra is None:
            return x
        own = vit.num_prefix_tokens
        return torch.cat([x[:, :own], extra.to(x.dtype), x[:, own:]], dim=1)

    def _grid(self, images: Tensor) -> tuple[int, int]:
        """Patch rows and columns of a batch of images."""
        patch = self.vit.patch_embed
        height, width = images.shape[-2:]
        down, across = patch.patch_size
        if height % down or width % across:
            raise UserError(
                f"image: {height}x{width} pixels are not multiples of the patch {down}x{across}; pad or resize"
            )
        if patch.strict_img_size and patch.img_size is not None and (height, width) != tuple(patch.img_size):
            expected = "x".join(str(side) for side in patch.img_size)
            raise UserError(
                f"image: {height}x{width} pixels, but the model is fixed to {expected}; resize, or create it with "
                "dynamic_img_size=True"
            )
        return height // down, width // across
