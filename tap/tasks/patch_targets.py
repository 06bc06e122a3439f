"""A class for every patch, for methods with auxiliary heads on patches: from a label map, or from boxes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tap.reducers.base import IGNORE


def classes_of_label_maps(labels: Tensor, size: tuple[int, int], num_classes: int) -> Tensor:
    """The most frequent class among the labelled pixels of each patch; of equally frequent ones the first.

    Args:
        labels: (B, H, W) integers, `IGNORE` where a pixel has no class; sides are multiples of `size`.
        size: patch rows and columns of the grid.
        num_classes: classes.

    Returns:
        (B, N) int64.
    """
    batch, height, width = labels.shape
    down, across = height // size[0], width // size[1]
    cells = labels.long().view(batch, size[0], down, size[1], across).transpose(2, 3).reshape(-1, down * across)
    counted = torch.where(cells == IGNORE, num_classes, cells)
    votes = torch.zeros(len(cells), num_classes + 1, dtype=torch.int32, device=labels.device)
    votes.scatter_add_(1, counted, torch.ones_like(counted, dtype=torch.int32))
    most, winner = votes[:, :num_classes].max(dim=1)
    # `max` may name any of several maxima: the first is asked for.
    winner = (votes[:, :num_classes] == most[:, None]).to(torch.uint8).argmax(dim=1)
    return torch.where(most > 0, winner, IGNORE).view(batch, -1)


def classes_of_boxes(
    boxes: Sequence[Tensor], classes: Sequence[Tensor], size: tuple[int, int], patch: tuple[int, int], background: int
) -> Tensor:
    """The class of the smallest box around the centre of each patch; the background elsewhere.

    Args:
        boxes: of each image `(M, 4)` as x1, y1, x2, y2 in pixels of the input.
        classes: of each image `(M,)`.
        size: patch rows and columns of the grid.
        patch: height and width of a patch in pixels.
        background: class of patches outside all boxes.

    Returns:
        (B, N) int64. Of boxes of one size the first counts.
    """
    device = boxes[0].device
    longest = max(1, *(len(one) for one in boxes))
    corners = torch.zeros(len(boxes), longest, 4, device=device)  # an empty box holds no centre
    labels = torch.full((len(boxes), longest), background, dtype=torch.int64, device=device)
    for image, (one, kinds) in enumerate(zip(boxes, classes, strict=True)):  # ragged truth, before any forward pass
        corners[image, : len(one)] = one.float()
        labels[image, : len(one)] = kinds
    y = (torch.arange(size[0], device=device) + 0.5) * patch[0]
    x = (torch.arange(size[1], device=device) + 0.5) * patch[1]
    left, top, right, bottom = corners[:, None].unbind(dim=-1)
    x, y = x.repeat(size[0])[None, :, None], y.repeat_interleave(size[1])[None, :, None]
    inside = (x >= left) & (x < right) & (y >= top) & (y < bottom)
    area = ((right - left) * (bottom - top)).expand_as(inside).masked_fill(~inside, float("inf"))
    smallest = area.amin(dim=2, keepdim=True)
    first = ((area == smallest) & inside).to(torch.uint8).argmax(dim=2)
    return torch.where(inside.any(dim=2), labels.gather(1, first), background)
