"""Weights of public models that are not those of `public_vit`: seeded draws in the order of the parameters' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tap.config.model import ModelConfig
from tap.encoder.sparse_vit import SparseEncoder
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.registry import get

WIDTH, CLASSES, PATCHES = 48, 10, 196


def draw(shapes: Mapping[str, Sequence[int]], std: float, seed: int) -> dict[str, Tensor]:
    """Normal draws of standard deviation `std` around 0, or around 1 for the gain of a norm."""
    generator, weights = torch.Generator().manual_seed(seed), {}
    for name in sorted(shapes):
        values = torch.randn(tuple(shapes[name]), generator=generator) * std
        module = name.split(".")[-2] if "." in name else ""
        gain = name.endswith("weight") and (module.startswith("norm") or module.endswith("norm"))
        weights[name] = values + 1 if gain else values
    return weights


def plain_vit(heads: int = 3) -> VisionTransformer:
    """A ViT of the references' size."""
    return build_vit(ModelConfig(image_size=224, patch_size=16, width=WIDTH, depth=12, heads=heads))


def vit_shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the parameters of such a ViT by timm's names, its head included."""
    shapes = {name: tuple(tensor.shape) for name, tensor in plain_vit().state_dict().items()}
    return shapes | {"head.weight": (CLASSES, WIDTH), "head.bias": (CLASSES,)}


def encoder_of(method: str, vit: VisionTransformer, options: Any = None) -> SparseEncoder:
    """A method at keep rate 0.5 on such a ViT."""
    settings = ReducerSettings(WIDTH, 12, keep_rate=0.5, num_classes=CLASSES, patches=PATCHES, options=options)
    return SparseEncoder(vit, get(method)(settings)).eval()
