"""MMDetection's dataset class, and the last step of its pipeline: packing, which is this project's."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from mmcv.transforms import BaseTransform

from tap.errors import UserError
from tap.tasks.images import normalised
from tap.tasks.openmmlab import import_quietly
from tap.tasks.segmentation.data_transforms import LoadImage

CocoDataset: Any = import_quietly("mmdet.datasets").CocoDataset
COCO: Any = import_quietly("mmdet.datasets.api_wrappers").COCO
COCOeval: Any = import_quietly("mmdet.datasets.api_wrappers").COCOeval
TRANSFORMS: Any = import_quietly("mmdet.registry").TRANSFORMS


@dataclass(frozen=True)
class Place:
    """Which image an evaluation sample is, and where its pixels lie.

    Attributes:
        image_id: the image's id in the annotation file.
        meta: what MMDetection needs to bring boxes back: `img_shape` of the resized image without padding, `ori_shape`
            and `scale_factor`.
        objects: the image's annotations in COCO's format, their `category_id` being the class from 0.
    """

    image_id: Any
    meta: dict[str, Any]
    objects: tuple[dict[str, Any], ...]


class LoadListedImage(LoadImage):
    """Reads an image, and refuses one of another size than listed: boxes and masks would lie elsewhere."""

    def transform(self, results: dict[str, Any]) -> dict[str, Any]:
        """Adds `img` and its sizes."""
        results = super().transform(results)
        (height, width), listed = results["img_shape"], (results["height"], results["width"])
        if (height, width) != listed:
            raise UserError(
                f"{results['img_path']}: has {width} x {height} pixels, its annotation file lists {listed[1]} x "
                f"{listed[0]}; get the image that the annotations belong to"
            )
        return results


class PackImage(BaseTransform):
    """Normalises, pads to a square, and makes tensors.

    Args:
        mean: per-channel mean of pixels in [0, 1], in RGB order.
        std: per-channel standard deviation.
        size: side of the square.
        objects: whether the objects are packed as well (training).
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], size: int, objects: bool) -> None:
        self.mean, self.std, self.size, self.objects = mean, std, size, objects

    def transform(self, results: dict[str, Any]) -> dict[str, Any]:
        """Gives `image` (C, size, size) float32, `target` and `sample_id`.

        The target of an evaluation image is a `Place`. That of a training image holds the `boxes` (n, 4) and `labels`
        (n,) of its objects, their `masks` (n, size, size) as MMDetection keeps them, the boxes of crowd regions
        `crowds` (m, 4), and the `shape` without padding.
        """
        height, width = results["img"].shape[:2]
        packed = {
            "image": normalised(results["img"], self.mean, self.std, (self.size, self.size)),
            "sample_id": results["sample_id"],
        }
        if not self.objects:
            meta = {key: results[key] for key in ("img_shape", "ori_shape", "scale_factor")}
            return packed | {"target": Place(results["img_id"], meta, results["objects"])}
        crowd = np.asarray(results["gt_ignore_flags"], dtype=bool)
        boxes = results["gt_bboxes"].tensor.float()
        target = {
            "boxes": boxes[~crowd],
            "labels": torch.from_numpy(np.asarray(results["gt_bboxes_labels"], dtype=np.int64)[~crowd]),
            "masks": results["gt_masks"][np.flatnonzero(~crowd)].pad((self.size, self.size)),
            "crowds": boxes[crowd],
            "shape": (height, width),
        }
        return packed | {"target": target}


def coco_of(content: dict[str, Any]) -> Any:
    """MMDetection's view of an annotation file's content, without what it prints."""
    api = COCO()
    api.dataset = content
    with contextlib.redirect_stdout(io.StringIO()):
        api.createIndex()
    return api
