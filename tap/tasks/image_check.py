"""Whether training and evaluation would take an image file: what the checks of a person's own dense data share."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from tap.errors import UserError
from tap.tasks.images import image_fault, read_image

_PLAIN = ("RGB", "L")
"""Modes that are read without a further look; any other one is tried as training tries it."""


def image_refusal(path: Path, decode: bool = False, size: tuple[int, int] | None = None) -> str | None:
    """Why an image file cannot be used, or None.

    Args:
        path: file to look at.
        decode: decode it even if header and end look right.
        size: width and height that the file is said to have; None for any.
    """
    fault = image_fault(path, decode)
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
