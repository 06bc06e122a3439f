"""`tap data check seg`: is a person's ADE20K folder what the paper scale needs?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.progress import track

from tap.config.data import DataConfig
from tap.errors import UserError
from tap.tasks.images import image_refusal, read_labels
from tap.tasks.report import Report, expected_images

SPLIT_IMAGES = {"training": 20_210, "validation": 2_000}
LARGEST_LABEL = 150
_KINDS = {"images": ".jpg", "annotations": ".png"}


@dataclass(frozen=True)
class _Pair:
    """What is known of one image and its label map; `fault` says what is wrong with either."""

    stem: str
    fault: str | None = None
    void: bool = False
    labels: int = 0


def check_settings(data: DataConfig, decode_all: bool = False) -> Report:
    """`check` of the folder, classes and images that the settings state."""
    return check(
        data.root, images=expected_images(data, SPLIT_IMAGES), largest_label=data.num_classes, decode_all=decode_all
    )


def check(
    root: str | Path,
    images: dict[str, int] | None = None,
    largest_label: int = LARGEST_LABEL,
    decode_all: bool = False,
) -> Report:
    """Looks at counts, pairs, sizes, label range and files that cannot be read.

    Label maps are decoded, images only opened.

    Args:
        root: folder with `images` and `annotations`, each with `training` and `validation` (ADEChallengeData2016).
        images: expected images by split; None takes ADE20K's.
        largest_label: largest stored label; 0 is void.
        decode_all: decode the images as well.

    Raises:
        UserError: `root` is not a folder.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserError(f"{root}: not a folder; set data.root to the folder that holds `images` and `annotations`")
    report = Report(f"ADE20K in {root}")
    for split, count in (images or SPLIT_IMAGES).items():
        folders = {kind: root / kind / split for kind in _KINDS}
        missing = [str(folder) for folder in folders.values() if not folder.is_dir()]
        if missing:
            report.problem(f"{split}: folders missing", missing)
            continue
        _check_split(report, folders, split, count, largest_label, decode_all)
    return report


def _check_split(
    report: Report, folders: dict[str, Path], split: str, count: int, largest_label: int, decode_all: bool
) -> None:
    stems: dict[str, set[str]] = {}
    for kind, suffix in _KINDS.items():
        with os.scandir(folders[kind]) as entries:
            names = sorted(entry.name for entry in entries if entry.name[0] != ".")  # training ignores hidden ones
        stems[kind] = {name.removesuffix(suffix) for name in names if name.endswith(suffix)}
        others = [name for name in names if not name.endswith(suffix)]
        if others:
            report.problem(f"{kind}/{split}: entries that are not {suffix} files", others)
        if len(stems[kind]) != count:
            report.problem(f"{kind}/{split}: {len(stems[kind])} files, expected {count}")
    for kind, other in (("images", "annotations"), ("annotations", "images")):
        alone = sorted(stems[kind] - stems[other])
        if alone:
            report.problem(f"{kind}/{split}: files without a partner in {other}", alone)
    paired = sorted(stems["images"] & stems["annotations"])
    pairs = list(_look(folders, paired, split, largest_label, decode_all))
    faults = [f"{pair.stem}: {pair.fault}" for pair in pairs if pair.fault is not None]
    if faults:
        report.problem(f"{split}: image and label map that cannot be used together", faults)
    void = sum(pair.void for pair in pairs)
    if pairs and void == len(pairs):
        report.problem(f"{split}: every label map is void, so there is nothing to learn from or to score")
    labels = max((pair.labels for pair in pairs), default=0)
    report.facts.append(
        f"{split}: {len(paired)} pairs, largest label {labels}, {void} label maps without any label (they are all void)"
    )


def _look(
    folders: dict[str, Path], stems: list[str], split: str, largest_label: int, decode_all: bool
) -> Iterator[_Pair]:
    def look(stem: str) -> _Pair:
        paths = {kind: folders[kind] / f"{stem}{suffix}" for kind, suffix in _KINDS.items()}
        return _look_at_pair(stem, paths["images"], paths["annotations"], largest_label, decode_all)

    with ThreadPoolExecutor() as pool:
        pairs = pool.map(look, stems, chunksize=32)
        yield from track(pairs, f"reading {split}", len(stems), console=Console(stderr=True), transient=True)


def _look_at_pair(stem: str, image_path: Path, map_path: Path, largest_label: int, decode_all: bool) -> _Pair:
    refusal = image_refusal(image_path, decode_all)
    if refusal is not None:
        return _Pair(stem, f"image: {refusal}")
    with Image.open(image_path) as image:
        size = image.size
    try:
        labels = read_labels(map_path)
    except UserError as error:
        return _Pair(stem, f"label map: {str(error).removeprefix(f'{map_path}: ')}")
    if labels.shape != size[::-1]:
        return _Pair(stem, f"label map of {labels.shape[1]} x {labels.shape[0]} for image of {size[0]} x {size[1]}")
    largest = int(labels.max(initial=0))
    if largest > largest_label:
        return _Pair(stem, f"label {largest} is above {largest_label}", labels=largest)
    return _Pair(stem, void=largest == 0, labels=largest)
