"""A stand-in for `mmcv._ext`, MMCV's compiled operators, which its wheel does not have.

Detection needs two of them, and torchvision has both. Every other operator is there by name, as importing MMDetection
asks for all of them, and raises when it is called.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import torch
import torchvision
from torch import Tensor

NAME = "mmcv._ext"
_AVERAGE = 1  # MMCV's number of the pooling mode; 0 is the maximum


def install() -> bool:
    """Puts the stand-in where MMCV looks for its operators; steps aside where compiled ones (or a stand-in) are there.

    Returns:
        Whether the stand-in was installed by this call.
    """
    if NAME in sys.modules or importlib.util.find_spec(NAME) is not None:
        return False
    module = _Operators(NAME, __doc__)
    module.__spec__ = importlib.machinery.ModuleSpec(NAME, loader=None)
    sys.modules[NAME] = module
    return True


class _Operators(ModuleType):
    """The two operators, and for any other name a function that raises."""

    def __init__(self, name: str, doc: str | None) -> None:
        super().__init__(name, doc)
        self.nms, self.roi_align_forward, self.roi_align_backward = nms, roi_align_forward, roi_align_backward

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_: Any, **__: Any) -> NoReturn:
            raise NotImplementedError(f"{NAME}.{name} is not compiled here; install an MMCV with operators to use it")

        return missing


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
    """Indices of the boxes that survive non-maximum suppression, best first; equal scores in their order.

    Args:
        boxes: `(n, 4)`, left, top, right, bottom.
        scores: `(n,)`.
        iou_threshold: a box that overlaps a better one by more is dropped.
        offset: 1 counts the right and bottom pixels in (width = right - left + 1), 0 does not.
    """
    order = scores.argsort(descending=True, stable=True)  # torchvision's own order of equal scores may vary
    boxes = boxes.float()[order]
    if offset:
        boxes = torch.cat([boxes[:, :2], boxes[:, 2:] + offset], dim=1)
    ranks = torch.arange(len(order), 0, -1, dtype=torch.float64, device=boxes.device).to(boxes.dtype)
    return order[torchvision.ops.nms(boxes, ranks, iou_threshold)]


def roi_align_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    """Pools `input` `(B, C, H, W)` in `rois` `(n, 5)` (image, left, top, right, bottom) into `output`; average only."""
    _check_mode(pool_mode)
    size = (aligned_height, aligned_width)
    pooled = torchvision.ops.roi_align(input.float(), rois.float(), size, spatial_scale, sampling_ratio, aligned)
    output.copy_(pooled)


def roi_align_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    grad_input: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    """Gradient of `roi_align_forward` with respect to its `input`, written into `grad_input`."""
    _check_mode(pool_mode)
    size = (aligned_height, aligned_width)
    # In float32: torchvision's backward has no bfloat16 kernel on a CPU.
    gradient = torch.ops.torchvision._roi_align_backward(
        grad_output.float(), rois.float(), spatial_scale, *size, *grad_input.shape, sampling_ratio, aligned
    )
    grad_input.copy_(gradient)


def _check_mode(pool_mode: int) -> None:
    if pool_mode != _AVERAGE:
        raise NotImplementedError(f"{NAME}.roi_align: pools by average only; use pool_mode='avg'")
