"""Image files: the one reader of all tasks and of their checks, and the tensor that a model takes.

A file is read as Pillow decodes it, without turning it by its EXIF orientation: public labels, boxes and scores belong
to the stored pixels. What has no certain colours is refused: more than 8 bits per channel, since the range is unknown,
and transparency, since anything may lie under it. Grey, indexed and CMYK images (ImageNet has some) become RGB.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from tap.errors import UserError

# A large image is no fault. For the whole process, since a filter of one thread is one of all.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

T = TypeVar("T")
_JPEG_END = b"\xff\xd9"
_8_BITS = ("1", "L", "P", "LA", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
"""Pillow's modes of at most 8 bits per channel whose colours are known."""


def open_image(path: Path) -> Image.Image:
    """A decoded image of mode `RGB`, or `L` where the file is grey.

    Raises:
        UserError: missing, unreadable, cut off, not 8 bits per channel, or partly transparent.
    """
    return _opened(path, "an image", _colours)


def read_image(path: Path) -> np.ndarray:
    """`open_image` as OpenCV keeps it: (H, W, 3) uint8 BGR."""
    pixels = np.asarray(open_image(path))
    return cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR if pixels.ndim == 2 else cv2.COLOR_RGB2BGR)


def read_labels(path: Path) -> np.ndarray:
    """(H, W) integer labels as stored; 8 or 16 bits, grey or indexed colour.

    Raises:
        UserError: missing, unreadable, cut off, or a colour picture.
    """
    labels, mode = _opened(path, "a label map", lambda image: (np.asarray(image), image.mode))
    if labels.ndim != 2 or labels.dtype.kind not in "ui":
        raise UserError(f"{path}: not a label map but a picture of mode {mode}; store one number per pixel")
    return labels


def image_refusal(path: Path, decode: bool = False, size: tuple[int, int] | None = None) -> str | None:
    """Why training and evaluation would not take an image file, or None.

    Args:
        path: file to look at.
        decode: decode it even if header and end look right.
        size: width and height that the file is said to have; None for any.
    """
    try:
        plain, found = _opened(path, "an image", lambda image: (_is_plain(image, path), image.size))
        if decode or not plain:
            open_image(path)
    except UserError as error:
        return str(error).removeprefix(f"{path}: ")
    if size is not None and found != size:
        return f"has {found[0]} x {found[1]} pixels, listed are {size[0]} x {size[1]}"
    return None


def normalised(image: np.ndarray, mean: Sequence[float], std: Sequence[float], size: tuple[int, int]) -> Tensor:
    """Pixels as a model takes them, padded with the mean colour at the bottom and the right.

    Args:
        image: (H, W, 3) uint8 BGR.
        mean: per-channel mean of pixels in [0, 1], in RGB order; one value makes the image grey.
        std: per-channel standard deviation.
        size: height and width with the padding.

    Returns:
        (C, height, width) float32.
    """
    colour = cv2.COLOR_BGR2GRAY if len(mean) == 1 else cv2.COLOR_BGR2RGB
    pixels = cv2.cvtColor(image, colour).reshape(*image.shape[:2], -1).astype(np.float32)
    pixels = (pixels / 255 - np.asarray(mean, dtype=np.float32)) / np.asarray(std, dtype=np.float32)
    pixels = np.pad(pixels, ((0, size[0] - image.shape[0]), (0, size[1] - image.shape[1]), (0, 0)))
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def _opened(path: Path, what: str, take: Callable[[Image.Image], T]) -> T:
    """What `take` makes of an image file, which it may decode.

    Raises:
        UserError: the file cannot be read, or `take` refuses it.
    """
    try:
        with Image.open(path) as image:
            return take(image)
    except FileNotFoundError as error:
        raise UserError(f"{path}: missing; get the file again, or mend the name") from error
    except _Refused as error:
        raise UserError(f"{path}: {error}") from error
    except Image.DecompressionBombError as error:  # raised by the header, before any pixel
        raise UserError(f"{path}: cannot be read as {what}; its header says: {str(error).partition(',')[0]}") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        reason = "not an image" if isinstance(error, UnidentifiedImageError) else str(error)
        raise UserError(f"{path}: cannot be read as {what} ({reason}); get the file again") from error


class _Refused(Exception):
    """An image whose colours are not certain."""


def _colours(image: Image.Image) -> Image.Image:
    bits = 16 if any(";16" in str(tile.args) for tile in image.tile) else None  # Pillow drops the lower half of RGB
    if bits is not None or image.mode not in _8_BITS:
        bits = bits or {"I": 32, "F": 32}.get(image.mode.partition(";")[0], 16)
        raise _Refused(f"{bits} bits per channel; convert it to 8 bits, since the range is unknown")
    image.load()
    if image.has_transparency_data:
        alpha = image.convert("RGBA")
        if alpha.getchannel("A").getextrema()[0] < 255:
            raise _Refused("has transparent pixels, whose colour is undefined; flatten it to RGB")
        return alpha.convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _is_plain(image: Image.Image, path: Path) -> bool:
    """Whether header and end of a file leave no doubt that it can be read."""
    return image.format == "JPEG" and image.mode in ("L", "RGB") and _ends_well(path)


def _ends_well(path: Path) -> bool:
    with open(path, "rb") as stream:
        stream.seek(-len(_JPEG_END), os.SEEK_END)
        return stream.read() == _JPEG_END
