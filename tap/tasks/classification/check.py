"""`tap data check cls`: is a person's ImageNet-1K folder what the paper scale needs?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import track

from tap.config.data import DataConfig
from tap.errors import UserError
from tap.tasks.classification.imagenet import SUFFIXES, class_folders, image_files
from tap.tasks.images import image_refusal
from tap.tasks.report import Report, expected_images

CLASSES = 1000
SPLIT_IMAGES = {"train": 1_281_167, "val": 50_000}
_WNID = re.compile(r"n\d{8}")
_READERS = 8


def check_settings(data: DataConfig, decode_all: bool = False) -> Report:
    """`check` of the folder, classes and images that the settings state."""
    return check(data.root, images=expected_images(data, SPLIT_IMAGES), classes=data.num_classes, decode_all=decode_all)


def check(
    root: str | Path, classes: int = CLASSES, images: dict[str, int] | None = None, decode_all: bool = False
) -> Report:
    """Looks at both splits: classes, counts, files that cannot be read, and what does not belong.

    A file is opened and its end inspected; only a suspicious one is decoded, which keeps the check of 1.3 million files
    to what the disk can list and seek.

    Args:
        root: folder with `train` and `val`.
        classes: expected class folders.
        images: expected images by split; None takes ImageNet-1K's.
        decode_all: decode every image (hours of CPU time for the full set).

    Raises:
        UserError: `root` is not a folder.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserError(f"{root}: not a folder; set data.root to the folder that holds `train` and `val`")
    report = Report(f"ImageNet-1K in {root}")
    expected = images or SPLIT_IMAGES
    found: dict[str, set[str]] = {}
    for split, count in expected.items():
        if not (root / split).is_dir():
            report.problem(f"{root / split}: missing; it must hold one folder of images per class")
            continue
        found[split] = _check_split(report, root / split, split, classes, count, decode_all)
    extra = sorted({entry.name for entry in root.iterdir() if entry.is_dir() and entry.name[0] != "."} - set(expected))
    if extra:
        report.problem("folders beside the splits, which nothing reads; move them away", extra)
    if len(found) == len(expected):
        missing = sorted(set.union(*found.values()) - set.intersection(*found.values()))
        if missing:
            report.problem("classes that are not in every split", missing)
    return report


def _check_split(report: Report, root: Path, split: str, classes: int, count: int, decode_all: bool) -> set[str]:
    folders = class_folders(root)
    strange = [name for name in folders if not _WNID.fullmatch(name)]
    known = [name for name in folders if _WNID.fullmatch(name)]
    if strange:
        report.problem(f"{split}: folders that are not named like a class (n01440764); move them away", strange)
    if len(known) != classes:
        report.problem(f"{split}: {len(known)} classes, expected {classes}")
    files = {name: image_files(root / name) for name in known}
    total = sum(map(len, files.values()))
    report.facts.append(f"{split}: {len(known)} classes, {total} images")
    if total != count:
        report.problem(f"{split}: {total} images, expected {count}")
    empty = [name for name, names in files.items() if not names]
    if empty:
        report.problem(f"{split}: classes without images", empty)
    other = [f"{name}/{entry}" for name in known for entry in _other_entries(root / name)]
    if other:
        report.problem(f"{split}: entries that are not images", other)
    paths = [root / name / file for name, names in files.items() for file in names]
    broken = [f"{path.relative_to(root)}: {fault}" for path, fault in _faults(paths, split, decode_all)]
    if broken:
        report.problem(f"{split}: images that cannot be used; get them again, or convert them", broken)
    return set(known)


def _other_entries(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(
            e.name for e in entries if e.name[0] != "." and not (e.is_file() and e.name.lower().endswith(SUFFIXES))
        )


def _faults(paths: list[Path], split: str, decode_all: bool) -> Iterable[tuple[Path, str]]:
    with ThreadPoolExecutor(_READERS) as pool:
        faults = pool.map(lambda path: image_refusal(path, decode_all), paths, chunksize=64)
        shown = track(faults, f"reading {split}", len(paths), console=Console(stderr=True), transient=True)
        yield from ((path, fault) for path, fault in zip(paths, shown, strict=True) if fault is not None)
