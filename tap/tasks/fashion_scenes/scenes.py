"""Scenes of Fashion-MNIST garments for detection: composed, and written in COCO's layout.

Every garment of the public set is used once at most, so that no two scenes share one: the scenes of a split are
independent of each other, which the tiles of a microscopy recording are not. Garments of the test images make the
validation scenes, the last of the training images the calibration scenes, the others the training scenes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import track

from tap.errors import UserError
from tap.provenance.files import atomic_write
from tap.tasks.classification import fashion
from tap.tasks.draws import Draws
from tap.tasks.fashion_scenes import data_card
from tap.tasks.fashion_scenes.compose import SIDE, Recipe, Scene, compose
from tap.tasks.microscopy.coco_annotations import LabelledTile, coco_json, has_coco, write_coco
from tap.tasks.picture_files import digest_of_file, manifest_of, save_picture
from tap.tasks.subsets import shuffled

CLASSES: Final = ("background", *fashion.CLASSES)
SCENES: Final = {"training": 4000, "calibration": 200, "validation": 500}
HELD_OUT: Final = 10_000
"""Training images whose garments make the calibration scenes."""

_LAYOUT = 1
_MANIFEST = "manifest.json"
_GARMENTS = "garments"


def prepare(
    root: str | Path,
    source: str | Path | None = None,
    files: tuple[fashion.IdxFile, ...] = fashion.FILES,
    scenes: Mapping[str, int] = SCENES,
    held_out: int = HELD_OUT,
    recipe: Recipe | None = None,
) -> Path:
    """Fetches Fashion-MNIST and writes the scenes, the data card and a manifest.

    Every scene is a function of the garments and of the settings here: a second call only verifies, an interrupted or
    damaged folder is completed.

    Args:
        root: folder to fill.
        source: where Fashion-MNIST is, see `fashion.prepare`.
        files: what to expect of it.
        scenes: how many of each split.
        held_out: training images whose garments make the calibration scenes.
        recipe: how scenes are made.

    Returns:
        The manifest: hashes of the decoded pictures and of the annotation files, the same on every machine.

    Raises:
        UserError: Fashion-MNIST cannot be had, has too few garments, or `root` cannot be written.
    """
    root, recipe = Path(root), recipe or Recipe()
    settings = {
        "layout": _LAYOUT,
        "side": SIDE,
        "garments": {file.name: file.sha256 for file in files},
        "scenes": dict(scenes),
        "held_out": held_out,
        "recipe": asdict(recipe),
    }
    settings = json.loads(json.dumps(settings))
    path = root / _MANIFEST
    if _is_complete(path, settings):
        return path
    fashion.prepare(root / _GARMENTS, source, files)
    path.unlink(missing_ok=True)  # what is there now is not what it says any more
    pictures: dict[str, str] = {}
    coco: dict[str, str] = {}
    counts: dict[str, list[int]] = {}
    pools = _pools(root / _GARMENTS, files, held_out)
    for split, (images, classes) in track(
        pools.items(), "composing scenes", console=Console(stderr=True), transient=True
    ):
        tiles: list[LabelledTile] = []
        for name, scene in composed(split, images, classes, scenes[split], recipe):
            pictures[f"{split}/{name}"] = save_picture(_picture(root, split, name), scene.image)
            tiles.append(LabelledTile(name, scene.labels, scene.instances, 0, (0, 0, SIDE, SIDE)))
        content = coco_json(tiles, CLASSES)
        coco[split] = write_coco(root, split, content)
        kinds = [annotation["category_id"] for annotation in content["annotations"]]
        counts[split] = np.bincount(kinds, minlength=len(CLASSES))[1:].tolist()
    for other in _others(root, pictures):
        other.unlink()
    manifest = {
        "name": "fashion_scenes",
        "classes": list(CLASSES[1:]),
        "settings": settings,
        "garments": counts,
        "coco": coco,
        "pictures": pictures,
    }
    atomic_write(root / "README.md", data_card.render(manifest, recipe))
    return atomic_write(path, json.dumps(manifest, indent=1) + "\n")


def composed(
    split: str, images: np.ndarray, classes: np.ndarray, count: int, recipe: Recipe
) -> Iterator[tuple[str, Scene]]:
    """The scenes of a split by file name; each takes the next garments of one order of all of them.

    Args:
        split: name; part of the seed.
        images: (N, 28, 28) uint8, the garments that the split may use.
        classes: (N,) their classes.
        count: scenes.
        recipe: sizes.

    Raises:
        UserError: there are too few garments.
    """
    order, used = shuffled(len(images), "scenes", split), 0
    for number in range(count):
        draws = Draws("scene", split, number)
        wanted = draws.between(*recipe.garments)
        chosen = order[used : used + wanted]
        used += wanted
        if len(chosen) < wanted:
            raise UserError(f"scenes: {len(images)} garments are too few for {count} {split} scenes; ask for fewer")
        yield f"scene_{number:05d}.png", compose(images[chosen], classes[chosen].tolist(), images, draws, recipe)


def _pools(folder: Path, files: tuple[fashion.IdxFile, ...], held_out: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Garments and classes that each split may use."""
    kinds = len(fashion.CLASSES)
    images, test_images = (fashion.read_images(folder / file.name) for file in files[::2])
    classes, test_classes = (fashion.read_labels(folder / file.name, kinds) for file in files[1::2])
    cut = len(images) - held_out
    return {
        "training": (images[:cut], classes[:cut]),
        "calibration": (images[cut:], classes[cut:]),
        "validation": (test_images, test_classes),
    }


def _picture(root: Path, split: str, name: str) -> Path:
    return root / "images" / split / name


def _is_complete(path: Path, settings: dict[str, Any]) -> bool:
    manifest = manifest_of(path, settings, parts=("coco", "pictures"))
    if manifest is None:
        return False
    root = path.parent
    return (
        (root / "README.md").is_file()
        and manifest["coco"].keys() == settings["scenes"].keys()
        and has_coco(root, manifest["coco"])
        and all(
            digest_of_file(_picture(root, *name.split("/"))) == digest for name, digest in manifest["pictures"].items()
        )
        and not list(_others(root, manifest["pictures"]))
    )


def _others(root: Path, pictures: Mapping[str, str]) -> Iterator[Path]:
    """Pictures of earlier settings."""
    for path in list((root / "images").glob("*/*.png")):
        if f"{path.parent.name}/{path.name}" not in pictures:
            yield path
