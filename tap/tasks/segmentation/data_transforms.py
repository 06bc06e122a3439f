"""The steps of MMSegmentation's pipeline that are this project's: strict loading at its start, packing at its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmcv.transforms import BaseTransform

from tap.errors import UserError
from tap.tasks.images import normalised, read_image, read_labels
from tap.tasks.openmmlab import TRANSFORMS
from tap.tasks.patch_targets import IGNORE


@TRANSFORMS.register_module(name="TapLoadImage")
class LoadImage(BaseTransform):
    """Reads an image as (H, W, 3) BGR by the rule of all tasks (`tap.tasks.images`)."""

    def transform(self, results: dict[str, Any]) -> dict[str, Any]:
        """Adds `img` and its sizes."""
        image = read_image(Path(results["img_path"]))
        results["img"] = image
        results["img_shape"] = results["ori_shape"] = image.shape[:2]
        return results


@TRANSFORMS.register_module(name="TapLoadLabels")
class LoadLabels(BaseTransform):
    """Reads a label map in ADE20K's numbering (0 void, classes from 1) as classes from 0 and void as 255.

    Args:
        num_classes: classes of the task.
    """

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes

    def transform(self, results: dict[str, Any]) -> dict[str, Any]:
        """Adds `gt_seg_map`, (H, W) uint8 of the image's original size."""
        path = Path(results["seg_map_path"])
        labels = read_labels(path)
        if labels.shape != tuple(results["ori_shape"]):
            raise UserError(
                f"{path}: label map of {_size(labels.shape)} pixels for an image of {_size(results['ori_shape'])}; "
                f"both must have the size of {results['img_path']}"
            )
        if labels.max(initial=0) > self.num_classes:
            raise UserError(
                f"{path}: label {labels.max()} is above the {self.num_classes} classes of data.num_classes; "
                "stored labels are 0 for void and 1 to the number of classes"
            )
        results["gt_seg_map"] = (labels.astype(np.int16) - 1).astype(np.uint8)  # 0 wraps to 255
        results["seg_fields"].append("gt_seg_map")
        return results


@TRANSFORMS.register_module(name="TapPackSample")
class PackSample(BaseTransform):
    """Normalises, pads at the bottom and the right, and makes tensors.

    Padding has the mean colour and void labels.

    Args:
        mean: per-channel mean of pixels in [0, 1], in RGB order.
        std: per-channel standard deviation.
        size: side of the padded square; None pads each side to the next multiple of `multiple`.
        multiple: side of a patch.
        pad_labels: whether labels are padded along (training) or stay at the original size (evaluation).
    """

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], size: int | None, multiple: int, pad_labels: bool
    ) -> None:
        self.mean, self.std = mean, std
        self.size, self.multiple, self.pad_labels = size, multiple, pad_labels

    def transform(self, results: dict[str, Any]) -> dict[str, Any]:
        """Gives `image` (C, H, W) float32, `labels` (H, W) uint8, `size` before padding, and `sample_id`."""
        labels = results["gt_seg_map"]
        height, width = results["img"].shape[:2]
        bottom, right = (self._padded(side) - side for side in (height, width))
        if self.pad_labels:
            labels = np.pad(labels, ((0, bottom), (0, right)), constant_values=IGNORE)
        return {
            "image": normalised(results["img"], self.mean, self.std, (height + bottom, width + right)),
            "labels": torch.from_numpy(np.ascontiguousarray(labels)),
            "size": (height, width),
            "sample_id": results["sample_id"],
        }

    def _padded(self, side: int) -> int:
        if self.size is not None and side <= self.size:
            return self.size
        return -(-side // self.multiple) * self.multiple


def _size(shape: Sequence[int]) -> str:
    return f"{shape[1]} x {shape[0]}"
