"""Label maps of images of any size, in one pass or in sliding windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tap.config.measuring import EvalConfig
from tap.config.model import ModelConfig
from tap.tasks.segmentation.data import Target
from tap.tasks.segmentation.model import FINAL_TOKENS, SAMPLE_ID, Segmenter


@dataclass(frozen=True)
class Prediction:
    """What the model says of one image.

    Attributes:
        labels: class of every pixel `(H, W)`, int64.
        final_tokens: patches that reach the last block, averaged over the windows.
    """

    labels: Tensor
    final_tokens: float


def inference_settings(evaluation: EvalConfig, model: ModelConfig) -> dict[str, Any]:
    """MMSegmentation's `test_cfg`: windows have the size of a training crop and advance by two thirds of it."""
    if evaluation.inference == "whole":
        return {"mode": "whole"}
    window = model.image_size
    stride = evaluation.stride or max(1, round(window * 2 / 3))
    return {"mode": "slide", "crop_size": (window, window), "stride": (stride, stride)}


def windows(images: Tensor, settings: Mapping[str, Any]) -> list[Tensor]:
    """What MMSegmentation's inference gives to the encoder of images `(B, C, H, W)`, in its order.

    Args:
        images: resized and padded, as evaluation takes them.
        settings: `inference_settings`.
    """
    if settings["mode"] == "whole":
        return [images]
    starts = [
        [min(number * step, max(length - side, 0)) for number in range(max(length - side + step - 1, 0) // step + 1)]
        for length, side, step in zip(images.shape[-2:], settings["crop_size"], settings["stride"], strict=True)
    ]
    height, width = settings["crop_size"]
    return [images[..., top : top + height, left : left + width] for top in starts[0] for left in starts[1]]


def predict(model: Segmenter, images: Tensor, sample_ids: Tensor, targets: Sequence[Target]) -> list[Prediction]:
    """Classifies every pixel of the original images.

    Args:
        model: in evaluation mode.
        images: resized, normalised and padded `(B, C, H, W)`.
        sample_ids: `(B,)` int64.
        targets: sizes of the images before padding and before resizing.
    """
    metas = _metas(images, sample_ids, targets)
    with torch.inference_mode():
        logits = model.inference(images, metas)
        return [
            Prediction(_at_truth(row, target).argmax(dim=0), sum(meta[FINAL_TOKENS]) / len(meta[FINAL_TOKENS]))
            for row, meta, target in zip(logits, metas, targets, strict=True)
        ]


def pixel_logits(model: Segmenter, images: Tensor, sample_ids: Tensor, targets: Sequence[Target]) -> list[Tensor]:
    """Logits of every pixel of the original images `(C, H, W)`; arguments as `predict`."""
    logits = model.inference(images, _metas(images, sample_ids, targets))
    return [_at_truth(row, target) for row, target in zip(logits, targets, strict=True)]


def _metas(images: Tensor, sample_ids: Tensor, targets: Sequence[Target]) -> list[dict[str, Any]]:
    return [
        {"ori_shape": tuple(target.labels.shape), "img_shape": tuple(images.shape[-2:]), SAMPLE_ID: number}
        for target, number in zip(targets, sample_ids, strict=True)
    ]


def _at_truth(logits: Tensor, target: Target) -> Tensor:
    """Crops the padding away and resizes to the label map."""
    height, width = target.size
    logits = logits[None, :, :height, :width]
    return F.interpolate(logits, tuple(target.labels.shape), mode="bilinear", align_corners=False)[0]
