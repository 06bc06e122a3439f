"""Which regions of an image survive the pruning (Sec. Spatial Retention Analysis): counts of single images.

Every function gives pairs of counts `(B, 2)`: what is kept, and what there was of it. Sums of them over images, or over
the windows of one image, are counts again. Pixels are those that the encoder sees; patches of windows that overlap
count once in each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tap.encoder.trace import Trace
from tap.reducers.base import IGNORE
from tap.tasks.patch_targets import classes_of_label_maps

BOUNDARY, CLASSES, INTERIOR, SMALL = "boundary", "classes", "box_interior", "small_objects"
"""Names of the counts in `per_sample.npz`."""

METRICS: Final[Mapping[str, str]] = {
    BOUNDARY: "boundary_retention",
    CLASSES: "class_coverage",
    INTERIOR: "box_interior_retention",
    SMALL: "small_object_coverage",
}
"""Metric in percent by the counts behind it."""


def final_kept(trace: Trace) -> Tensor:
    """The patches that reach the last block `(B, N_1)`, bool, by original index; all of them where none is removed."""
    if not trace.kept:
        return torch.ones(len(trace.final_counts), trace.grid[0] * trace.grid[1], dtype=torch.bool)
    return trace.kept[max(trace.kept)].cpu()


def boundary_counts(labels: Tensor, size: tuple[int, int], kept: Tensor) -> NDArray[np.int64]:
    """Kept and all boundary patches: those with more than one class among their labelled pixels.

    Args:
        labels: `(B, H, W)` integers, void is 255; sides are multiples of `size`.
        size: patch rows and columns.
        kept: `(B, N)`.

    Returns:
        `(B, 2)`.
    """
    batch, height, width = labels.shape
    down, across = height // size[0], width // size[1]
    cells = labels.long().view(batch, size[0], down, size[1], across).transpose(2, 3).reshape(batch, -1, down * across)
    known = cells != IGNORE
    highest = cells.masked_fill(~known, -1).amax(dim=2)
    lowest = cells.amin(dim=2)  # void is above every class
    return _counts(known.any(dim=2) & (highest > lowest), kept)


def class_counts(labels: Tensor, size: tuple[int, int], kept: Tensor, classes: int) -> NDArray[np.int64]:
    """Classes with at least one kept patch, and all classes, of patches called by their majority of labelled pixels.

    Of equally frequent classes the first names the patch; a patch without labelled pixels has no class. Arguments as
    of `boundary_counts`, and how many classes the task has.

    Returns:
        `(B, 2)`.
    """
    named = classes_of_label_maps(labels, size, classes)
    return np.array(
        [
            (len(row[mine & (row != IGNORE)].unique()), len(row[row != IGNORE].unique()))
            for row, mine in zip(named, kept, strict=True)
        ],
        dtype=np.int64,
    ).reshape(-1, 2)


@dataclass(frozen=True)
class Objects:
    """The objects of one image.

    Attributes:
        boxes: left, top, right, bottom in the pixels that the encoder sees `(n, 4)`.
        areas: in pixels of the original image, by which an object is small `(n,)`.
    """

    boxes: NDArray[np.float64]
    areas: NDArray[np.float64]


def interior_counts(
    objects: Sequence[Objects], size: tuple[int, int], patch: tuple[int, int], kept: Tensor
) -> NDArray[np.int64]:
    """Kept and all patches whose centre lies in the union of the boxes.

    Args:
        objects: of every image; crowd regions are none.
        size: patch rows and columns.
        patch: height and width of a patch in pixels.
        kept: `(B, N)`.

    Returns:
        `(B, 2)`; zeros for an image without objects.
    """
    inside = np.stack([_inside(one.boxes, size, patch).any(axis=0) for one in objects])
    return _counts(torch.from_numpy(inside), kept)


def small_counts(
    objects: Sequence[Objects], size: tuple[int, int], patch: tuple[int, int], kept: Tensor, side: float
) -> NDArray[np.int64]:
    """Small objects with a kept patch centre in their box, and all that have a patch centre there at all.

    An object between the centres cannot be covered by any choice and is not counted. Arguments as of `interior_counts`;
    an object is small below `side`^2 pixels.

    Returns:
        `(B, 2)`.
    """
    found = []
    for one, mine in zip(objects, kept.numpy(), strict=True):
        inside = _inside(one.boxes[one.areas < side**2], size, patch)
        found.append(((inside & mine).any(axis=1).sum(), inside.any(axis=1).sum()))
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def share_of(name: str, counts: NDArray) -> float | None:
    """The metric in percent that counts of a split give; None where no image has any of it.

    Retained patches and covered objects are shares of all that the split has; classes are averaged over the images
    that have some.
    """
    counts = counts[counts[:, 1] > 0].astype(np.float64)
    if not len(counts):
        return None
    if name == CLASSES:
        return float(100.0 * (counts[:, 0] / counts[:, 1]).mean())
    return float(100.0 * counts[:, 0].sum() / counts[:, 1].sum())


def _inside(boxes: NDArray, size: tuple[int, int], patch: tuple[int, int]) -> NDArray[np.bool_]:
    """Whether each box `(n, 4)` holds the centre of each patch `(n, N)`."""
    y = ((np.arange(size[0]) + 0.5) * patch[0]).repeat(size[1])
    x = np.tile((np.arange(size[1]) + 0.5) * patch[1], size[0])
    left, top, right, bottom = (boxes[:, side, None] for side in range(4))
    return (x >= left) & (x < right) & (y >= top) & (y < bottom)


def _counts(eligible: Tensor, kept: Tensor) -> NDArray[np.int64]:
    return torch.stack([(eligible & kept).sum(dim=1), eligible.sum(dim=1)], dim=1).numpy()
