"""ImageNet-1K in the usual folder layout: `train/<wnid>/*.JPEG` and `val/<wnid>/*.JPEG`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from tap.errors import UserError
from tap.tasks.images import open_image

SUFFIXES = (".jpeg", ".jpg", ".png")


@dataclass(frozen=True)
class ImageFolder:
    """The images of one split, classes in the order of their folders' names.

    Attributes:
        root: folder of the split.
        files: (N,) paths relative to `root`, sorted by class and name.
        labels: (N,) int64.
        mode: colour mode that `load` returns, `L` or `RGB`.
    """

    root: Path
    files: tuple[str, ...]
    labels: np.ndarray
    mode: str = "RGB"

    def load(self, index: int) -> Image.Image:
        """One image.

        Raises:
            UserError: the file cannot be used (`open_image`).
        """
        return open_image(self.root / self.files[index]).convert(self.mode)


def open_folder(root: Path, classes: int, mode: str = "RGB") -> ImageFolder:
    """Lists one split.

    Raises:
        UserError: the folder is missing or does not hold `classes` class folders with images.
    """
    folders = class_folders(root)
    if len(folders) != classes:
        raise UserError(f"{root}: {len(folders)} class folders, expected {classes}; `tap data check cls` says more")
    listed = [image_files(root / folder) for folder in folders]
    empty = [folder for folder, names in zip(folders, listed, strict=True) if not names]
    if empty:
        raise UserError(f"{root / empty[0]}: no images; `tap data check cls` lists all faults of the folder")
    files = tuple(f"{folder}/{name}" for folder, names in zip(folders, listed, strict=True) for name in names)
    labels = np.repeat(np.arange(classes, dtype=np.int64), [len(names) for names in listed])
    return ImageFolder(root, files, labels, mode)


def class_folders(root: Path) -> list[str]:
    """Names of the folders in `root`, sorted; without hidden ones.

    Raises:
        UserError: `root` is not a folder.
    """
    if not root.is_dir():
        raise UserError(f"{root}: not a folder; data.root must hold `train` and `val` with one folder per class")
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir() and entry.name[0] != ".")


def image_files(folder: Path) -> list[str]:
    """Names of the image files in `folder`, sorted; without hidden ones, which other systems leave beside images."""
    with os.scandir(folder) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.name[0] != "." and entry.name.lower().endswith(SUFFIXES) and entry.is_file()
        )
