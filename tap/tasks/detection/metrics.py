"""COCO's metrics, image by image: MMDetection's evaluation class matches, and what it found is kept as bits.

MMDetection's metric does the same for a whole split, but rounds to a tenth of a point and keeps nothing of single
images. The tests hold the two together.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pycocotools.mask import area as run_length_area

from tap.tasks.detection.average_precision import (
    KINDS,
    NONE,
    SIZES,
    THRESHOLDS,
    average_precision,
    matches_of,
    over_classes,
)
from tap.tasks.detection.data_transforms import COCOeval, coco_of


def match(
    truth: Sequence[Sequence[dict[str, Any]]],
    found: Sequence[Mapping[str, Any]],
    sizes: Sequence[tuple[int, int]],
    classes: int,
    room: int,
) -> dict[str, np.ndarray]:
    """Matches the detections of some images with their objects, in all size bands and by boxes and masks.

    Args:
        truth: annotations of each image in COCO's format; their `category_id` is the class from 0.
        found: of each image `labels` `(n,)`, `scores` `(n,)`, `bboxes` `(n, 4)` and `masks` (a run-length code each),
            by falling score.
        sizes: height and width of each image.
        classes: number of classes C.
        room: detections K that the arrays have room for.

    Returns:
        Arrays by name, one row per image: `labels` and `scores` `(n, K)`, `boxes` `(n, K, 4)`; `objects` `(n, 4, C)`
        by size band; for boxes and masks `<kind>_hits` and `<kind>_ignored` `(n, 4, K)`, see `Matches`.
    """
    images = len(truth)
    arrays = {
        "labels": np.full((images, room), NONE, dtype=np.int16),
        "scores": np.zeros((images, room), dtype=np.float32),
        "boxes": np.zeros((images, room, 4), dtype=np.float32),
        "objects": np.zeros((images, len(SIZES), classes), dtype=np.int32),
    }
    for kind in KINDS:
        for what in ("hits", "ignored"):
            arrays[f"{kind}_{what}"] = np.zeros((images, len(SIZES), room), dtype=np.uint16)
    for number, one in enumerate(found):
        for name, key in (("labels", "labels"), ("scores", "scores"), ("boxes", "bboxes")):
            arrays[name][number, : len(one["labels"])] = one[key]
    reference = _coco(_annotations(truth), sizes, classes)
    for kind, name in KINDS.items():
        evaluation = COCOeval(reference, _coco(_detections(found, kind, room), sizes, classes), name)
        evaluation.params.maxDets = [room]
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation.evaluate()
        bands = [tuple(band) for band in evaluation.params.areaRng]
        for of_class in filter(None, evaluation.evalImgs):
            image, band = of_class["image_id"], bands.index(tuple(of_class["aRng"]))
            places = (np.array(of_class["dtIds"], dtype=np.int64) - 1) % room
            for what, key in (("hits", "dtMatches"), ("ignored", "dtIgnore")):
                bits = np.asarray(of_class[key], dtype=bool).reshape(THRESHOLDS, -1)
                arrays[f"{kind}_{what}"][image, band, places] = (bits << np.arange(THRESHOLDS)[:, None]).sum(axis=0)
            to_find = ~np.asarray(of_class["gtIgnore"], dtype=bool)
            arrays["objects"][image, band, of_class["category_id"]] = to_find.sum()
    return arrays


def ap_scores(arrays: Mapping[str, Any]) -> dict[str, float]:
    """COCO's metrics of a split in percent; size bands without objects are left out.

    Returns:
        `box_ap`, `box_ap50`, `box_ap75`, `box_ap_small`, `box_ap_medium`, `box_ap_large`, and the same of masks.
    """
    everything = np.ones((1, len(arrays["labels"])))
    scores = {}
    for kind in KINDS:
        by_threshold = over_classes(average_precision(matches_of(arrays, kind), everything))[0]
        scores[f"{kind}_ap"] = float(by_threshold.mean())
        scores[f"{kind}_ap50"], scores[f"{kind}_ap75"] = float(by_threshold[0]), float(by_threshold[5])
        for size in SIZES[1:]:
            if arrays["objects"][:, SIZES.index(size)].any():
                band = over_classes(average_precision(matches_of(arrays, kind, size), everything))
                scores[f"{kind}_ap_{size}"] = float(band.mean())
    return scores


def _annotations(truth: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All annotations, with new numbers from 1: COCO takes number 0 for no match."""
    found = [{"iscrowd": 0} | entry | {"image_id": image} for image, objects in enumerate(truth) for entry in objects]
    return [entry | {"id": number} for number, entry in enumerate(found, start=1)]


def _detections(found: Sequence[Mapping[str, Any]], kind: str, room: int) -> list[dict[str, Any]]:
    """All detections as annotations, numbered by image and place."""
    entries = []
    for image, one in enumerate(found):
        for place, (label, score) in enumerate(zip(one["labels"], one["scores"], strict=True)):
            entry = {"id": image * room + place + 1, "image_id": image, "category_id": int(label), "iscrowd": 0}
            if kind == "box":
                left, top, right, bottom = map(float, one["bboxes"][place])
                shape = {"bbox": [left, top, right - left, bottom - top], "area": (right - left) * (bottom - top)}
            else:
                mask = one["masks"][place]
                shape = {"segmentation": mask, "area": float(run_length_area(mask))}
            entries.append(entry | {"score": float(score)} | shape)
    return entries


def _coco(annotations: list[dict[str, Any]], sizes: Sequence[tuple[int, int]], classes: int) -> Any:
    images = [{"id": number, "height": height, "width": width} for number, (height, width) in enumerate(sizes)]
    categories = [{"id": number, "name": str(number)} for number in range(classes)]
    return coco_of({"images": images, "annotations": annotations, "categories": categories})
