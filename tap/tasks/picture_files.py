"""Pictures that a data set is made of: written without haste, and known by the hash of their pixels."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from tap.provenance.files import atomic_write


def digest_of(array: np.ndarray) -> str:
    """Hash of an array's type, shape and values."""
    return hashlib.sha256(
        f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
    ).hexdigest()


def digest_of_file(path: Path) -> str | None:
    """Hash of the decoded picture, so that another PNG encoder makes no difference; None if it cannot be read."""
    if not path.is_file():
        return None
    try:
        with Image.open(path) as image:
            array = np.asarray(image)
    except (UnidentifiedImageError, OSError, SyntaxError):
        return None
    return digest_of(array.astype(np.uint16) if image.mode.startswith("I") else array)


def save_picture(path: Path, array: np.ndarray) -> str:
    """Writes a picture where another one, or none, is, and gives its hash.

    It does not wait for the disk: a manifest comes last, and every reader of it checks the pixels.
    """
    digest = digest_of(array)
    if digest_of_file(path) != digest:
        atomic_write(path, Image.fromarray(array).save, durable=False)
    return digest
