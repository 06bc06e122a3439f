"""COCO's instance format: reading an annotation file, and what can be wrong with one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tap.errors import UserError

Content = dict[str, Any]
_PARTS: Final = ("images", "annotations", "categories")
_HUGE = 1e15
_ROUNDING = 1.0
"""Pixels by which COCO's own boxes reach over the border of the image."""


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """A finite number (JSON as Python reads it has NaN and infinity)."""
    return isinstance(value, int | float) and abs(value) < _HUGE


def _is_box(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(map(_is_number, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


_ID: Final = (_is_whole, "a whole number")
_SIDE: Final = (lambda value: _is_whole(value) and value > 0, "a number of pixels")
_FORM: Final[dict[str, dict[str, tuple[Callable[[Any], bool], str]]]] = {
    "images": {"id": _ID, "file_name": (_is_text, "a name"), "height": _SIDE, "width": _SIDE},
    "annotations": {
        "id": _ID,
        "image_id": _ID,
        "category_id": _ID,
        "bbox": (_is_box, "[left, top, width, height]"),
        "area": (_is_number, "a number"),
        "segmentation": (lambda _: True, ""),  # `faults` has more to say
    },
    "categories": {"id": _ID, "name": (_is_text, "a name")},
}
"""What the entries of each list must have, by key: whether a value is right, and what it should be."""


def read_annotations(path: Path) -> Content:
    """Reads an annotation file and refuses one that is wrong.

    Boxes of zero area are left out, as MMDetection and the metric have no use for them; everything else is kept.

    Raises:
        UserError: missing, no JSON, not of COCO's form, or with faults (the first kind is named with its examples).
    """
    content = load(path)
    wrong = malformed(content)
    if wrong:
        more = f" (and {len(wrong) - 1} more entries of a wrong form)" if len(wrong) > 1 else ""
        raise UserError(f"{path}: {wrong[0]}{more}; mend the file, `tap data check det` lists all faults")
    found = faults(content)
    if found:
        kind, examples = next(iter(found.items()))
        more = f" and {len(examples) - 3} more" if len(examples) > 3 else ""
        raise UserError(
            f"{path}: {kind}: {'; '.join(examples[:3])}{more}; mend the file, `tap data check det` lists all faults"
        )
    kept = [annotation for annotation in content["annotations"] if not has_no_area(annotation)]
    return content | {"annotations": kept}


def load(path: Path) -> Content:
    """Reads an annotation file as it is; its entries may still be anything (`malformed`).

    Raises:
        UserError: missing, no JSON, or without COCO's lists.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check that the file is there") from error
    except ValueError as error:
        raise UserError(f"{path}: is not JSON ({error}); get the file again") from error
    lists = isinstance(content, dict) and all(isinstance(content.get(part), list) for part in _PARTS)
    if not lists or not all(isinstance(entry, dict) for part in _PARTS for entry in content[part]):
        raise UserError(f"{path}: is not an instance file of COCO: it must have the lists {', '.join(_PARTS)}")
    return content


def malformed(content: Content) -> list[str]:
    """The entries that are not of COCO's form, each with what is wrong with it."""
    found = ((part, entry, _fault_of_form(part, entry)) for part in _FORM for entry in content[part])
    return [f"{part}: entry {entry.get('id', entry)}{fault}" for part, entry, fault in found if fault is not None]


def well_formed(content: Content) -> Content:
    """The content without entries of a wrong form, and without the annotations of images and categories among them."""
    kept = {part: [entry for entry in content[part] if _fault_of_form(part, entry) is None] for part in _FORM}
    for part, key in (("images", "image_id"), ("categories", "category_id")):
        dropped = [entry.get("id") for entry in content[part] if _fault_of_form(part, entry) is not None]
        kept["annotations"] = [entry for entry in kept["annotations"] if entry[key] not in dropped]
    return content | kept


def _fault_of_form(part: str, entry: Content) -> str | None:
    for key, (right, meaning) in _FORM[part].items():
        if key not in entry:
            return f" has no '{key}'"
        if not right(entry[key]):
            return f": its {key} is {entry[key]!r}, not {meaning}"
    return None


def faults(content: Content) -> dict[str, list[str]]:
    """Everything that is wrong with a file's content, by kind of fault; empty if nothing is."""
    found = {
        f"{part}: ids that stand twice": _twice(entry["id"] for entry in content[part]) for part in reversed(_PARTS)
    }
    images = {image["id"]: image for image in content["images"]}
    categories = {category["id"] for category in content["categories"]}
    checks: dict[str, Callable[[Content], str | None]] = {
        "annotations of images that are not listed": lambda a: _unless(
            a["image_id"] in images, f"image {a['image_id']}"
        ),
        "categories that are not listed": lambda a: _unless(
            a["category_id"] in categories, f"category {a['category_id']}"
        ),
        "crowd flags that are neither 0 nor 1": lambda a: _unless(
            a.get("iscrowd", 0) in (0, 1), f"iscrowd {a.get('iscrowd')!r}"
        ),
        "boxes outside of their image": lambda a: outside_of_image(a, images.get(a["image_id"])),
        "masks that are broken": lambda a: fault_of_mask(a["segmentation"], images.get(a["image_id"])),
    }
    for kind, check in checks.items():
        reasons = ((annotation["id"], check(annotation)) for annotation in content["annotations"])
        found[kind] = [f"annotation {number}: {reason}" for number, reason in reasons if reason is not None]
    return {kind: examples for kind, examples in found.items() if examples}


def has_no_area(annotation: Content) -> bool:
    """Whether an annotation's box or mask has no area; COCO itself has a few."""
    width, height = annotation["bbox"][2:]
    return width <= 0 or height <= 0 or annotation["area"] <= 0


def without_objects(content: Content) -> set[Any]:
    """Ids of the images that have no object of their own (crowd regions are none)."""
    seen = {annotation["image_id"] for annotation in content["annotations"] if not annotation.get("iscrowd", 0)}
    return {image["id"] for image in content["images"]} - seen


def _unless(right: bool, reason: str) -> str | None:
    return None if right else reason


def _twice(ids: Iterator[Any]) -> list[str]:
    return [f"id {number}" for number, count in Counter(ids).items() if count > 1]


def outside_of_image(annotation: Content, image: Content | None) -> str | None:
    """How a box reaches beyond its image; None if it does not, or if the image is not listed."""
    if image is None:
        return None
    box = left, top, width, height = annotation["bbox"]
    reach = min(left, top, image["width"] - left - width, image["height"] - top - height)
    if width < 0 or height < 0 or reach < -_ROUNDING:
        return f"box {list(box)} of an image of {image['width']} x {image['height']}"
    return None


def fault_of_mask(mask: Any, image: Content | None) -> str | None:
    """What is wrong with a mask: polygons, or COCO's run-length code, compressed or not; None if nothing is."""
    if isinstance(mask, list):
        return _unless(bool(mask) and all(map(_is_polygon, mask)), "a polygon needs three or more pairs of numbers")
    if not isinstance(mask, dict) or not {"size", "counts"} <= mask.keys():
        return "neither polygons nor a run-length code"
    if image is None:
        return None
    if mask["size"] != [image["height"], image["width"]]:
        return f"run-length code of {mask['size']} in an image of {[image['height'], image['width']]}"
    counts = mask["counts"] if isinstance(mask["counts"], list) else decoded_runs(mask["counts"])
    if counts is None or not all(isinstance(count, int) and count >= 0 for count in counts):
        return "run-length code that cannot be read"
    pixels = mask["size"][0] * mask["size"][1]
    return _unless(sum(counts) == pixels, f"run-length code of {sum(counts)} pixels, not {pixels}")


def _is_polygon(part: Any) -> bool:
    if not isinstance(part, list) or len(part) < 6 or len(part) % 2:
        return False
    return set(map(type, part)) <= {int, float} and abs(sum(part)) < _HUGE  # NaN and infinity reach the sum


def decoded_runs(text: Any) -> list[int] | None:
    """Runs of COCO's compressed code (six bits a character, later runs as differences); None if it is cut off."""
    if not isinstance(text, str):
        return None
    runs: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            return None
        value |= (bits & 0x1F) << shift
        shift += 5
        if bits & 0x20:
            continue
        if bits & 0x10:
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value = shift = 0
    return None if shift else runs
