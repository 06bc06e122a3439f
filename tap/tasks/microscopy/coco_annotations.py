"""Objects of labelled tiles as COCO writes them: boxes, run-length masks, areas, crowd flags.

What nobody can be right or wrong about gets COCO's crowd flag, which evaluation ignores: the void rim of a frame, whose
reference leaves cells out, and slivers of cells that the tile's edge has cut off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tap.provenance.files import atomic_write, sha256_file

SLIVER = 32
"""Pixels of a cell below which its part in a tile is too small to be asked for."""


@dataclass(frozen=True)
class LabelledTile:
    """One tile before it becomes JSON.

    Attributes:
        name: file name of its image.
        labels: (H, W) stored classes: 0 void, 1 background, then kinds of object.
        instances: (H, W) object numbers, 0 where there is none.
        kind: stored label of the objects that the tile's void may hide.
        rim: (top, left, bottom, right): the rows and columns between these lie outside of the frame's rim.
    """

    name: str
    labels: np.ndarray
    instances: np.ndarray
    kind: int
    rim: tuple[int, int, int, int]


def coco_json(tiles: Sequence[LabelledTile], classes: Sequence[str]) -> dict[str, Any]:
    """One split in COCO's instance format.

    Args:
        tiles: in the order of their names; images are numbered from 1.
        classes: names by stored label minus 1, background first; the others are the categories, numbered from 1.
    """
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, tile in enumerate(tiles, start=1):
        height, width = tile.labels.shape
        images.append({"id": number, "file_name": tile.name, "height": height, "width": width})
        for kind, mask, crowd in _objects(tile):
            annotation = {"id": len(annotations) + 1, "image_id": number, "category_id": kind - 1}
            annotations.append(annotation | _geometry(mask) | {"iscrowd": int(crowd)})
    categories = [{"id": number, "name": name} for number, name in enumerate(classes) if number]
    return {"images": images, "annotations": annotations, "categories": categories}


def write_coco(root: Path, split: str, content: Mapping[str, Any]) -> str:
    """Writes the annotation file of a split below a prepared folder; gives its sha256."""
    return sha256_file(atomic_write(_path(root, split), json.dumps(content, separators=(",", ":")) + "\n"))


def has_coco(root: Path, digests: Mapping[str, str]) -> bool:
    """Whether a prepared folder has the annotation files of these sha256, by split."""
    files = {_path(root, split): digest for split, digest in digests.items()}
    return all(file.is_file() and sha256_file(file) == digest for file, digest in files.items())


def _path(root: Path, split: str) -> Path:
    return root / "coco" / f"instances_{split}.json"


def run_lengths(mask: np.ndarray) -> dict[str, Any]:
    """COCO's uncompressed run-length code of a mask (H, W): runs of 0 and 1 in turn, column by column."""
    flat = mask.ravel(order="F").astype(np.int8)
    borders = np.flatnonzero(np.diff(flat, prepend=np.int8(0)))
    return {"size": list(mask.shape), "counts": np.diff(borders, prepend=0, append=flat.size).tolist()}


def _objects(tile: LabelledTile) -> Iterator[tuple[int, np.ndarray, bool]]:
    """Stored label, mask and crowd flag of everything that the tile has."""
    for number in np.unique(tile.instances):
        if number:
            mask = tile.instances == number
            kind = int(np.bincount(tile.labels[mask]).argmax())
            yield kind, mask, int(mask.sum()) < SLIVER
    void = tile.labels == 0
    top, left, bottom, right = tile.rim
    # Strip by strip: one box around an L-shaped rim would cover the whole tile.
    for strip in (np.s_[:top], np.s_[bottom:], np.s_[:, :left], np.s_[:, right:]):
        mask = np.zeros_like(void)
        mask[strip] = void[strip]
        if mask.any():
            yield tile.kind, mask, True


def _geometry(mask: np.ndarray) -> dict[str, Any]:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    top, left = int(rows[0]), int(columns[0])
    box = [left, top, int(columns[-1]) + 1 - left, int(rows[-1]) + 1 - top]
    return {"bbox": box, "area": int(mask.sum()), "segmentation": run_lengths(mask)}
