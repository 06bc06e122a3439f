"""The small ViT whose weights and images all reference values of whole models share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tap.config.model import ModelConfig
from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.registry import get

DATA = Path(__file__).parent / "data"
_PUBLIC = np.load(Path(__file__).parents[1] / "encoder" / "data" / "reference_vit.npz")


def reference(name: str) -> dict[str, Tensor]:
    """All arrays of a file of reference values."""
    file = np.load(DATA / f"{name}.npz")
    return {key: torch.from_numpy(np.asarray(file[key])) for key in file.files}


def public_encoder(method: str, options: Any = None, reads: tuple[int, ...] = ()) -> SparseEncoder:
    """A method on the public weights, pruning at blocks 3, 6 and 9 to half of 196 patches."""
    vit = build_vit(ModelConfig(image_size=224, patch_size=16, width=48, depth=12, heads=3))
    vit.load_state_dict({name: public(f"w.{name}") for name in vit.state_dict()})
    settings = ReducerSettings(48, 12, keep_rate=0.5, num_classes=10, options=options, dense=bool(reads))
    return SparseEncoder(vit, get(method)(settings), reads).eval()


def public(name: str) -> Tensor:
    """One of the shared arrays."""
    return torch.from_numpy(_PUBLIC[name])


def public_images() -> Tensor:
    """The two images `(2, 3, 224, 224)`."""
    return public("img_u8").float() / 127.5 - 1


def logits(encoder: SparseEncoder, output: EncoderOutput) -> Tensor:
    """What the public head makes of a pass `(2, 10)`."""
    return torch.nn.functional.linear(encoder.pool(output), public("w.head.weight"), public("w.head.bias"))
