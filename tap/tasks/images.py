"""Image files: whether one is whole, its pixels, and the tensor that a model takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from tap.errors import UserError

_JPEG_END = b"\xff\xd9"


def image_fault(path: Path, decode: bool = False) -> str | None:
    """What is wrong with an image file, or None.

    Args:
        path: file to look at.
        decode: decode it even if header and end look right.
    """
    try:
        with Image.open(path) as image:
            if decode or image.format != "JPEG" or not _ends_well(path):
                image.load()
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        return "not an image" if isinstance(error, UnidentifiedImageError) else str(error)
    return None


def read_image(path: Path) -> np.ndarray:
    """(H, W, 3) uint8 BGR.

    Raises:
        UserError: missing, unreadable, not 8 bits per channel, or partly transparent.
    """
    image = cv2.imdecode(_content(path), cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None:
        raise UserError(f"{path}: cannot be read as an image; get the file again")
    if image.dtype != np.uint8:
        raise UserError(
            f"{path}: {8 * image.itemsize} bits per channel; convert it to 8 bits, since the range is unknown"
        )
    if image.ndim == 2:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    if image.shape[2] == 4:
        if image[..., 3].min() < 255:
            raise UserError(f"{path}: has transparent pixels, whose colour is undefined; flatten it to RGB")
        return np.ascontiguousarray(image[..., :3])
    return image


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


def _content(path: Path) -> np.ndarray:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check that the file is there") from error
    if not content:
        raise UserError(f"{path}: empty file; get it again")
    return np.frombuffer(content, dtype=np.uint8)


def _ends_well(path: Path) -> bool:
    with open(path, "rb") as stream:
        stream.seek(-len(_JPEG_END), os.SEEK_END)
        return stream.read() == _JPEG_END
