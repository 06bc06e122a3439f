"""What stands on an image: what a label or a prediction says, and which patches are kept. No torch is needed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_LIFT, _DARK = 0.35, 0.2
"""Brightness of black in kept patches, so that they show on a dark image, and what is left of it in removed ones."""


@dataclass(frozen=True)
class View:
    """What a label or a prediction says of an image, ready to be shown.

    Attributes:
        picture: the image with it, or it alone `(H, W, 3)`, uint8.
        boxes: left, top, right and bottom of what it outlines, in pixels `(n, 4)`.
        colours: of these `(n, 3)`, in [0, 1].
        words: what it says in words; may be empty.
    """

    picture: NDArray[np.uint8]
    boxes: NDArray = field(default_factory=lambda: np.empty((0, 4)))
    colours: NDArray = field(default_factory=lambda: np.empty((0, 3)))
    words: str = ""


def bytes_of(pixels: NDArray) -> NDArray[np.uint8]:
    """Pixels in [0, 1] as uint8."""
    return (255 * pixels).round().astype(np.uint8)


def darkened(pixels: NDArray, kept: NDArray[np.bool_], patch: tuple[int, int]) -> NDArray:
    """The picture `(H, W, 3)` with the patches darkened that are not kept.

    Args:
        pixels: the image without padding `(H, W, 3)` in [0, 1].
        kept: which patches of the (padded) image are `(N_y, N_x)`.
        patch: height and width of a patch in pixels.
    """
    height, width = pixels.shape[:2]
    mask = kept.repeat(patch[0], axis=0).repeat(patch[1], axis=1)[:height, :width]
    return (_LIFT + (1 - _LIFT) * pixels) * np.where(mask, 1.0, _DARK)[..., None]
