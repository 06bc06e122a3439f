"""Mean IoU by MMSegmentation's metric, and the confusion matrices from which a bootstrap computes it anew."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tap.errors import UserError
from tap.tasks.segmentation.data_transforms import IGNORE
from tap.tasks.segmentation.mmseg_parts import IoUMetric


def confusion_matrix(prediction: Tensor, label: Tensor, classes: int) -> Tensor:
    """Pixels by label (row) and prediction (column), void left out.

    Args:
        prediction: classes `(H, W)`, int64.
        label: classes, or 255 for void `(H, W)`, int64.
        classes: number of classes C.

    Returns:
        `(C, C)` int64.
    """
    known = label != IGNORE
    cells = label[known] * classes + prediction[known]
    return torch.bincount(cells, minlength=classes * classes).view(classes, classes)


def class_areas(confusion: np.ndarray) -> np.ndarray:
    """What IoU needs of confusion matrices.

    Args:
        confusion: `(..., C, C)`, by label and prediction.

    Returns:
        Pixels that are right, predicted and labelled, by class `(..., 3, C)`.
    """
    hits = np.diagonal(confusion, axis1=-2, axis2=-1)
    return np.stack([hits, confusion.sum(axis=-2), confusion.sum(axis=-1)], axis=-2)


def iou_scores(areas: np.ndarray) -> dict[str, float]:
    """Scores of a split in percent, by MMSegmentation's metric.

    Args:
        areas: what `class_areas` gives, summed over the images `(3, C)`.

    Returns:
        `miou` over the classes that are labelled or predicted, `iou_<number>` of each, `pixel_accuracy`, and
        as a floor `constant_miou`: what the most frequent class everywhere would reach.

    Raises:
        UserError: no pixel has a label.
    """
    intersection, predicted, labelled = torch.from_numpy(np.ascontiguousarray(areas)).double()
    union = predicted + labelled - intersection
    if not labelled.sum():
        raise UserError("labels: every pixel of the split is void, so there is nothing to score; check its labels")
    result = IoUMetric.total_area_to_metrics(intersection, union, predicted, labelled)
    occurs = union > 0
    scores = {f"iou_{number}": 100.0 * float(result["IoU"][number]) for number in occurs.nonzero().flatten()}
    constant = labelled.max() / labelled.sum() / (labelled > 0).sum()
    return {
        "miou": 100.0 * float(np.nanmean(result["IoU"])),
        "pixel_accuracy": 100.0 * float(result["aAcc"]),
        "constant_miou": 100.0 * float(constant),
        **scores,
    }
