"""Masked autoencoder: how the desk backbone gets the pre-training that the paper takes from public MAE weights.

Images of other sizes than the model's own fit where the backbone takes them (its positions are resized on the fly), so
that one pre-training can go over several tasks' images.
"""

from __future__ import annotations

import torch
from timm.layers import build_sincos2d_pos_embed
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tap.encoder.sparse_vit import SparseEncoder


class MaskedAutoencoder(nn.Module):
    """ViT encoder on the visible patches, small decoder on all of them, pixel loss on the hidden ones.

    Args:
        encoder: the backbone to be trained; its blocks run on the visible patches only.
        mask_ratio: share of patches hidden from the encoder.
        decoder_width, decoder_depth, decoder_heads: sizes of the decoder, which is thrown away afterwards.
    """

    def __init__(
        self, encoder: SparseEncoder, mask_ratio: float, decoder_width: int, decoder_depth: int, decoder_heads: int
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.mask_ratio = mask_ratio
        vit = encoder.vit
        self.patch = vit.patch_embed.patch_size
        grid = list(vit.patch_embed.grid_size)
        with torch.no_grad():  # learned positions start as sine and cosine, MAE's fixed choice
            vit.pos_embed[:, vit.num_prefix_tokens :] = build_sincos2d_pos_embed(grid, vit.embed_dim)
        self._grids: dict[tuple[int, int], Tensor] = {}
        self.embed = nn.Linear(vit.embed_dim, decoder_width)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, decoder_width))
        nn.init.normal_(self.mask_token, std=0.02)
        self.register_buffer("positions", build_sincos2d_pos_embed(grid, decoder_width)[None], persistent=False)
        self.decoder = nn.Sequential(
            *(Block(decoder_width, decoder_heads, qkv_bias=True) for _ in range(decoder_depth))
        )
        pixels = self.patch[0] * self.patch[1] * vit.patch_embed.proj.in_channels
        self.predict = nn.Sequential(nn.LayerNorm(decoder_width), nn.Linear(decoder_width, pixels))

    def forward(self, images: Tensor, order: Tensor) -> Tensor:
        """Reconstruction error of every hidden patch.

        Args:
            images: `(B, C, H, W)`.
            order: a permutation of each image's patches `(B, N)`; the first `1 - mask_ratio` of them are visible.

        Returns:
            Mean squared error of normalised pixels `(B, hidden)`.
        """
        vit = self.encoder.vit
        visible = order[:, : max(1, int(order.shape[1] * (1 - self.mask_ratio)))]
        hidden = order[:, visible.shape[1] :]
        x = vit._pos_embed(vit.patch_embed(images))
        prefix = x[:, : vit.num_prefix_tokens]
        x = torch.cat([prefix, _take(x[:, vit.num_prefix_tokens :], visible)], dim=1)
        x = self.embed(vit.norm(vit.blocks(vit.norm_pre(x))))[:, vit.num_prefix_tokens :]
        tokens = self.mask_token.expand(*order.shape, -1).to(x.dtype)
        tokens = tokens.scatter(1, visible[..., None].expand_as(x), x)
        down, across = self.patch
        decoded = self.decoder(tokens + self._positions((images.shape[-2] // down, images.shape[-1] // across)))
        predicted = self.predict(_take(decoded, hidden)).float()
        return (predicted - _take(self.targets(images), hidden)).square().mean(dim=-1)

    def _positions(self, grid: tuple[int, int]) -> Tensor:
        """The decoder's fixed positions on a grid `(1, N, width)`; made once for each that is not the model's own."""
        if grid == tuple(self.encoder.vit.patch_embed.grid_size):
            return self.positions
        known = self._grids.get(grid)
        if known is None or known.device != self.positions.device:
            width = self.positions.shape[-1]
            known = build_sincos2d_pos_embed(list(grid), width, device=self.positions.device)[None]
            self._grids[grid] = known.to(self.positions.dtype)
        return self._grids[grid]

    def targets(self, images: Tensor) -> Tensor:
        """Pixels of every patch, normalised within the patch `(B, N, pixels)`."""
        batch, channels, height, width = images.shape
        down, across = self.patch
        patches = images.reshape(batch, channels, height // down, down, width // across, across)
        patches = patches.permute(0, 2, 4, 3, 5, 1).reshape(batch, -1, down * across * channels).float()
        variance, mean = torch.var_mean(patches, dim=-1, keepdim=True)
        return (patches - mean) / (variance + 1e-6).sqrt()


def _take(tokens: Tensor, index: Tensor) -> Tensor:
    return tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1]))
