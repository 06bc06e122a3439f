"""`tap data check det`: is a person's COCO 2017 folder what the paper scale needs?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import track

from tap.errors import UserError
from tap.tasks.detection.annotations import Content, faults, has_no_area, load, without_objects
from tap.tasks.image_check import image_refusal
from tap.tasks.report import Report

SPLIT_IMAGES = {"train2017": 118_287, "val2017": 5_000}
CATEGORIES = 80


def check(
    root: str | Path,
    images: Mapping[str, int] | None = None,
    categories: int = CATEGORIES,
    decode_all: bool = False,
) -> Report:
    """Looks at counts, missing and unusable images, their sizes, categories, boxes, masks and ids.

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
        file = root / "annotations" / f"instances_{split}.json"
        try:
            content = load(file)
        except UserError as error:
            report.problem(str(error))
            continue
        # In the file's order, which numbers the classes.
        names[split] = [(category["id"], category["name"]) for category in content["categories"]]
        _check_content(report, split, content, count, categories)
        _check_images(report, root / split, content, decode_all)
    if len({tuple(found) for found in names.values()}) > 1:
        report.problem(f"categories or their order differ between {' and '.join(names)}; take both from one source")
    return report


def _check_content(report: Report, split: str, content: Content, count: int, categories: int) -> None:
    listed, annotations = content["images"], content["annotations"]
    if len(listed) != count:
        report.problem(f"{split}: {len(listed)} images are listed, expected {count}")
    if len(content["categories"]) != categories:
        report.problem(f"{split}: {len(content['categories'])} categories, expected {categories}")
    for kind, examples in faults(content).items():
        report.problem(f"{split}: {kind}", examples)
    crowds = sum(bool(entry.get("iscrowd", 0)) for entry in annotations)
    report.facts.append(
        f"{split}: {len(listed)} images, {len(annotations) - crowds} objects, {crowds} crowd regions, "
        f"{len(without_objects(content))} images without objects (not trained on)"
    )
    flat = [str(entry["id"]) for entry in annotations if has_no_area(entry)]
    if flat:
        shown = ", ".join(flat[:5]) + (", ..." if len(flat) > 5 else "")
        report.facts.append(f"{split}: {len(flat)} annotations of zero area, which are left out ({shown})")


def _check_images(report: Report, folder: Path, content: Content, decode_all: bool) -> None:
    if not folder.is_dir():
        report.problem(f"{folder.name}: folder missing", [str(folder)])
        return
    sizes = {folder / image["file_name"]: (image["width"], image["height"]) for image in content["images"]}
    there = [path for path in sizes if path.is_file()]
    if len(there) < len(sizes):
        missing = sorted({path.name for path in sizes} - {path.name for path in there})
        report.problem(f"{folder.name}: images that are listed but missing", missing)
    if len(sizes) < len(content["images"]):
        counts = Counter(image["file_name"] for image in content["images"])
        report.problem(f"{folder.name}: files that are listed twice", [name for name, n in counts.items() if n > 1])
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda path: (path.name, image_refusal(path, decode_all, sizes[path])), there, chunksize=32)
        shown = track(found, f"reading {folder.name}", len(there), console=Console(stderr=True), transient=True)
        broken = [f"{name}: {fault}" for name, fault in shown if fault is not None]
    if broken:
        report.problem(f"{folder.name}: images that cannot be used", broken)
