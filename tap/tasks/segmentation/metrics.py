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


class IoU:
    """Sums of one pass over a split.

    Args:
        classes: number of classes C.
    """

    def __init__(self, classes: int) -> None:
        self.classes = classes
        # MMSegmentation counts in float32, which is exact for one image but not for sums over a data set.
        self._areas = torch.zeros(4, classes, dtype=torch.float64)

    def add(self, prediction: Tensor, label: Tensor) -> None:
        """Counts one image: classes `(H, W)`, and classes or 255 for void `(H, W)`."""
        areas = IoUMetric.intersect_and_union(prediction, label, self.classes, IGNORE)
        self._areas += torch.stack(areas).double()

    def metrics(self) -> dict[str, float]:
        """Scores in percent.

        Returns:
            `miou` over the classes that are labelled or predicted, `iou_<number>` of each, `pixel_accuracy`, and
            as a floor `constant_miou`: what the most frequent class everywhere would reach.

        Raises:
            UserError: no pixel has a label.
        """
        intersection, union, predicted, labelled = self._areas
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
