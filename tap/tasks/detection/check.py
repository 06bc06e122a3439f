"""`tap data check det`: is a person's COCO 2017 folder what the paper scale needs?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import track

from tap.config.data import DataConfig
from tap.errors import UserError
from tap.tasks.detection.annotations import (
    Content,
    decoded_runs,
    fault_of_mask,
    faults,
    has_no_area,
    load,
    malformed,
    outside_of_image,
    well_formed,
    without_objects,
)
from tap.tasks.images import image_refusal
from tap.tasks.report import Report, expected_images

SPLIT_IMAGES = {"train2017": 118_287, "val2017": 5_000}
CATEGORIES = 80
_MEND = "mend or remove these entries, or get the file again"
_MENDS: Final = {
    "annotations of images that are not listed": "list the images, or remove these annotations",
    "categories that are not listed": "list them, or remove these annotations",
    "crowd flags that are neither 0 nor 1": "make them 0 or 1",
}
"""What mends a kind of fault, where it is not `_MEND`."""


def check_settings(data: DataConfig, decode_all: bool = False) -> Report:
    """`check` of the folder, classes and images that the settings state."""
    return check(
        data.root, images=expected_images(data, SPLIT_IMAGES), categories=data.num_classes, decode_all=decode_all
    )


def check(
    root: str | Path,
    images: Mapping[str, int] | None = None,
    categories: int = CATEGORIES,
    decode_all: bool = False,
) -> Report:
    """Looks at counts, missing and unusable images, their sizes, categories, boxes, masks, ids and hidden objects.

    Args:
        root: folder with `annotations`, `train2017` and `val2017`.
        images: expected images by split; None takes COCO's.
        categories: expected categories.
        decode_all: decode every image; otherwise only headers and ends are looked at.

    Raises:
        UserError: `root` is not a folder.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserError(f"{root}: not a folder; set data.root to the folder that holds `annotations` and `train2017`")
    report = Report(f"COCO in {root}")
    names: dict[str, list[tuple[int, str]]] = {}
    for split, count in (images or SPLIT_IMAGES).items():
        file = f"annotations/instances_{split}.json"
        try:
            content = load(root / file)
        except UserError as error:
            report.problem(str(error))
            continue
        wrong = malformed(content)
        if wrong:
            report.problem(f"{file}: entries that are not of COCO's form; {_MEND}", wrong)
            content = well_formed(content)
        # In the file's order, which numbers the classes.
        names[split] = [(category["id"], category["name"]) for category in content["categories"]]
        _check_content(report, split, file, content, count, categories)
        _check_images(report, root / split, file, content, decode_all)
    if len({tuple(found) for found in names.values()}) > 1:
        report.problem(f"categories or their order differ between {' and '.join(names)}; take both from one source")
    return report


def _check_content(report: Report, split: str, file: str, content: Content, count: int, categories: int) -> None:
    listed, annotations = content["images"], content["annotations"]
    if len(listed) != count:
        report.problem(f"{file}: {len(listed)} images are listed, expected {count}; get the file again")
    if len(content["categories"]) != categories:
        report.problem(f"{file}: {len(content['categories'])} categories, expected {categories}; get the file again")
    for kind, examples in (faults(content) | _hidden(content)).items():
        report.problem(f"{file}: {kind}; {_MENDS.get(kind, _MEND)}", examples)
    crowds = sum(bool(entry.get("iscrowd", 0)) for entry in annotations)
    trained = [entry for entry in annotations if not has_no_area(entry) and not _is_tiny(entry)]
    empty = without_objects(content | {"annotations": trained})
    report.facts.append(
        f"{split}: {len(listed)} images, {len(annotations) - crowds} objects, {crowds} crowd regions, "
        f"{len(empty)} images without objects (not trained on)"
    )
    if len(empty) == len({image["id"] for image in listed}):
        report.problem(f"{file}: no image has an object to learn from or to score; get the file again")
    left_out: dict[str, Callable[[Content], bool]] = {
        "annotations of zero area, which are left out": has_no_area,
        "boxes under one pixel, which training leaves out": _is_tiny,
    }
    for kind, belongs in left_out.items():
        ids = [str(entry["id"]) for entry in annotations if belongs(entry)]
        if ids:
            shown = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
            report.facts.append(f"{split}: {len(ids)} {kind} ({shown})")


def _check_images(report: Report, folder: Path, file: str, content: Content, decode_all: bool) -> None:
    if not folder.is_dir():
        report.problem(f"{folder.name}: folder missing; set data.root to the folder that holds it", [str(folder)])
        return
    sizes = {folder / image["file_name"]: (image["width"], image["height"]) for image in content["images"]}
    there = [path for path in sizes if path.is_file()]
    if len(there) < len(sizes):
        missing = sorted(str(path.relative_to(folder)) for path in sizes.keys() - set(there))
        report.problem(f"{folder.name}: images that are listed but missing; get them again", missing)
    if len(sizes) < len(content["images"]):
        counts = Counter(image["file_name"] for image in content["images"])
        twice = [name for name, number in counts.items() if number > 1]
        report.problem(f"{file}: files that are listed twice; {_MEND}", twice)
    with ThreadPoolExecutor() as pool:
        found = pool.map(
            lambda path: (path.relative_to(folder), image_refusal(path, decode_all, sizes[path])), there, chunksize=32
        )
        shown = track(found, f"reading {folder.name}", len(there), console=Console(stderr=True), transient=True)
        broken = [f"{name}: {fault}" for name, fault in shown if fault is not None]
    if broken:
        report.problem(f"{folder.name}: images that cannot be used; get them again", broken)


def _is_tiny(annotation: Content) -> bool:
    """Whether a box has an area, but is under one pixel wide or high: MMDetection drops these."""
    return min(annotation["bbox"][2:]) < 1 and not has_no_area(annotation)


def _hidden(content: Content) -> dict[str, list[str]]:
    """Annotations without a fault of which no image shows anything, by kind; training would drop them silently."""
    images = {image["id"]: image for image in content["images"]}
    kinds: dict[str, Callable[[Content, Content], bool]] = {
        "boxes wholly outside of their image": _box_is_hidden,
        "masks without a pixel in their image": _mask_is_hidden,
    }
    listed = [(entry, images[entry["image_id"]]) for entry in content["annotations"] if entry["image_id"] in images]
    found = {
        kind: [
            f"annotation {entry['id']}" for entry, image in listed if not has_no_area(entry) and hidden(entry, image)
        ]
        for kind, hidden in kinds.items()
    }
    return {kind: examples for kind, examples in found.items() if examples}


def _box_is_hidden(annotation: Content, image: Content) -> bool:
    left, top, width, height = annotation["bbox"]
    return _misses(image, [left, left + width], [top, top + height]) and outside_of_image(annotation, image) is None


def _mask_is_hidden(annotation: Content, image: Content) -> bool:
    """Whether all polygons lie outside of the image, or a run-length code has no foreground."""
    mask = annotation["segmentation"]
    if fault_of_mask(mask, image) is not None:
        return False
    if isinstance(mask, list):
        return all(_misses(image, part[::2], part[1::2]) for part in mask)
    counts = mask["counts"] if isinstance(mask["counts"], list) else decoded_runs(mask["counts"])
    return not any((counts or [])[1::2])  # runs of background and foreground in turn


def _misses(image: Content, x: Sequence[float], y: Sequence[float]) -> bool:
    """Whether points span nothing of an image."""
    return max(x) <= 0 or min(x) >= image["width"] or max(y) <= 0 or min(y) >= image["height"]
