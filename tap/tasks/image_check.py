"""Whether training and evaluation would take an image file: what the checks of a person's own data share."""

from __future__ import annotations

import warnings
from pathlib import Path

from PIL import Image

from tap.errors import UserError
from tap.tasks.images import image_fault, read_image

# A large image is no fault. For the whole process, since a filter of one thread is one of all.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

_PLAIN = ("RGB", "L")
"""Modes that are read without a further look; any other one is tried as training tries it."""


def file_fault(path: Path, decode: bool = False) -> str | None:
    """What is wrong with an image file (`image_fault`), or that its header announces too many pixels; else None."""
    try:
        return image_fault(path, decode)
    except Image.DecompressionBombError as error:  # raised by the header, before any pixel
        return f"its header says: {str(error).partition(',')[0]}"


def image_refusal(path: Path, decode: bool = False, size: tuple[int, int] | None = None) -> str | None:
    """Why an image file cannot be used, or None.

    Args:
        path: file to look at.
        decode: decode it even if header and end look right.
        size: width and height that the file is said to have; None for any.
    """
    fault = file_fault(path, decode)
    if fault is not None:
        return f"cannot be read ({fault})"
    with Image.open(path) as image:
        mode, found = image.mode, image.size
    if mode not in _PLAIN:
        try:
            read_image(path)
        except UserError as error:
            return f"cannot be used ({str(error).removeprefix(f'{path}: ')})"
    if size is not None and found != size:
        return f"has {found[0]} x {found[1]} pixels, listed are {size[0]} x {size[1]}"
    return None
