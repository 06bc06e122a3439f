"""Is an image file whole?"""

from __future__ import annotations

import os
from pathlib import Path

from PIL import Image, UnidentifiedImageError

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


def _ends_well(path: Path) -> bool:
    with open(path, "rb") as stream:
        stream.seek(-len(_JPEG_END), os.SEEK_END)
        return stream.read() == _JPEG_END
