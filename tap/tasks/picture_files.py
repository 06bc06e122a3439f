"""Pictures that a data set is made of: written without haste, known by the hash of their pixels, kept in a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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


def manifest_of(path: Path, settings: Mapping[str, Any], parts: Sequence[str]) -> dict[str, Any] | None:
    """The manifest of a prepared folder; None where there is none of these settings, or it lacks a part.

    Args:
        path: the manifest.
        settings: what it must have been made with.
        parts: keys under which it must hold mappings.
    """
    if not path.is_file():
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    if not isinstance(manifest, dict) or manifest.get("settings") != settings:
        return None
    return manifest if all(isinstance(manifest.get(part), dict) for part in parts) else None
