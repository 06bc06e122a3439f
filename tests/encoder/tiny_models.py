"""Encoders of a few thousand weights, all of them random and far from zero, so that every term counts."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from tap.config.options.cropr import CroprOptions
from tap.config.options.dtop import DtopOptions
from tap.config.options.evovit import EvoVitOptions
from tap.config.options.svit import SvitOptions
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.vitdet import place_on_grid
from tap.reducers.base import ReducerSettings
from tap.reducers.registry import get

PATCH = 2


LAYERED = ("attn_topk", "dynamicvit", "random", "static", "tap")
"""Methods that prune in the blocks that the settings name and have the common recovery or TAP's."""

TINY_OPTIONS = {
    "cropr": CroprOptions(layers=(2, 3), warmup=0.0),
    "dtop": DtopOptions(layers=(2, 3), channels=8, heads=2, kept_per_class=1, threshold=0.4),
    "evovit": EvoVitOptions(first_block=2, chosen_again=(4,)),
    "svit": SvitOptions(layers=(2, 3, 4)),
}
"""Settings of methods that act in blocks of their own, for a model of four blocks."""


def tiny_vit(
    grid: tuple[int, int] = (4, 4), width: int = 16, depth: int = 4, heads: int = 2, seed: int = 0, **options: Any
) -> VisionTransformer:
    """A ViT with 2-pixel patches; `options` go to timm, those of `place_on_grid` make it a ViTDet trunk."""
    trunk = {name: options.pop(name) for name in ("window", "global_blocks", "relative", "padded") if name in options}
    class_token = options.pop("class_token", not trunk)
    common = {"class_token": class_token, "global_pool": "token" if class_token else "avg", "num_classes": 0}
    common["dynamic_img_size"] = bool(trunk)
    vit = VisionTransformer(
        img_size=(grid[0] * PATCH, grid[1] * PATCH),
        patch_size=PATCH,
        embed_dim=width,
        depth=depth,
        num_heads=heads,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
        **common | options,
    )
    if trunk:
        place_on_grid(vit, **{"window": None, "global_blocks": (), "grid": grid, "relative": True} | trunk)
    randomise(vit, seed)
    return vit


def tiny_encoder(
    method: str = "tap",
    keep_rate: float = 0.5,
    layers: tuple[int, ...] = (2, 3),
    reads: tuple[int, ...] = (),
    recovery: RecoverySettings | None = None,
    settings: dict[str, Any] | None = None,
    seed: int = 0,
    **vit: Any,
) -> SparseEncoder:
    """A method on `tiny_vit`, in evaluation mode. The static rule's shares fit any number of pruning blocks."""
    backbone = tiny_vit(seed=seed, **vit)
    given = {
        "split": tuple(range(1, len(layers) + 1)),
        "class_token": backbone.has_class_token,
        "dense": bool(reads),
        "num_classes": 3,
        "patches": backbone.patch_embed.num_patches,
        "options": TINY_OPTIONS.get(method),
    }
    reducer = get(method)(
        ReducerSettings(
            width=backbone.embed_dim,
            depth=len(backbone.blocks),
            keep_rate=keep_rate,
            layers=layers,
            **given | (settings or {}),
        )
    )
    randomise(reducer, seed + 1)
    return SparseEncoder(backbone, reducer, reads, recovery).eval()


def common_recovery(method: str) -> RecoverySettings:
    """Learned scale where there is a register, the parameter-free endpoint elsewhere."""
    return RecoverySettings() if method in ("tap", "tap_f") else RecoverySettings(scale=1.0)


def tiny_images(encoder: SparseEncoder, count: int = 3, seed: int = 0, grid: tuple[int, int] | None = None) -> Tensor:
    """Random images of the encoder's own size, or of `grid` patches."""
    patch = encoder.vit.patch_embed
    rows, columns = grid or patch.grid_size
    generator = torch.Generator().manual_seed(seed)
    sides = (rows * patch.patch_size[0], columns * patch.patch_size[1])
    weight = patch.proj.weight
    return torch.randn(count, weight.shape[1], *sides, generator=generator).to(weight.dtype)


def randomise(module: nn.Module, seed: int) -> None:
    """Draws every parameter: gains around 1, matrices that keep the scale, everything else around 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            draw = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim >= 2 and "embed" not in name:
                parameter.copy_(draw * 1.5 * parameter[0].numel() ** -0.5)
            elif "norm" in name and name.endswith("weight"):
                parameter.copy_(1 + 0.2 * draw)
            else:
                parameter.copy_(0.5 * draw)
