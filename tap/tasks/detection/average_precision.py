"""COCO's average precision of any resample of the images, from what one matching per image has left.

A resample is a vector of counts, and an image that is drawn twice counts twice: its detections and its objects enter
every sum with that weight. So images are matched once, and thousands of resamples only sum. (Where two detections of
one image tie, listing its copies one after the other would mix them; here both copies of the first come first.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

THRESHOLDS = 10
"""Overlaps from 0.50 to 0.95 in steps of 0.05; bit t of a detection's `hits` and `ignored` belongs to the t-th."""

_RECALLS = np.linspace(0.0, 1.0, 101)
_CELLS = 4_000_000  # of the matrix of counts by detection made at once: 32 MB
NONE = -1
"""Label of the places behind an image's last detection."""


SIZES = ("all", "small", "medium", "large")
"""COCO's size bands, by area in pixels of the original image: up to 32 squared, up to 96 squared, above."""

KINDS = {"box": "bbox", "mask": "segm"}
"""The two overlaps, with the names that COCO gives them."""


@dataclass(frozen=True)
class Matches:
    """Detections of n images, each with room for K of them, matched with C classes of objects.

    Attributes:
        labels: class of each detection `(n, K)`, in each image by falling score; `NONE` where there is none.
        scores: `(n, K)`.
        hits: whether the detection found an object, one bit per threshold `(n, K)` uint16.
        ignored: whether it counts for nothing (crowds, other sizes), one bit per threshold `(n, K)` uint16.
        objects: objects to be found, by class `(n, C)`.
    """

    labels: NDArray
    scores: NDArray
    hits: NDArray
    ignored: NDArray
    objects: NDArray


def matches_of(arrays: Mapping[str, NDArray], kind: str, size: str = "all") -> Matches:
    """What `average_precision` needs, out of the arrays of `tap.tasks.detection.metrics.match`.

    Args:
        arrays: what `tap.tasks.detection.metrics.match` gave, of any number of images.
        kind: `box` or `mask`.
        size: size band.
    """
    band = SIZES.index(size)
    return Matches(
        arrays["labels"],
        arrays["scores"],
        arrays[f"{kind}_hits"][:, band],
        arrays[f"{kind}_ignored"][:, band],
        arrays["objects"][:, band],
    )


def average_precision(matches: Matches, counts: NDArray) -> NDArray[np.float64]:
    """Precision averaged over recalls 0, 0.01, ..., 1, as `COCOeval` computes it.

    Args:
        matches: what the detections of each image found.
        counts: how often each image counts, `(draws, n)`.

    Returns:
        Percent by class and threshold `(draws, C, 10)`; NaN for a class without objects in the resample.
    """
    counts = np.asarray(counts, dtype=np.float64)
    classes = matches.objects.shape[1]
    result = np.full((len(counts), classes, THRESHOLDS), np.nan)
    objects = counts @ matches.objects
    for number in range(classes):
        image, place = np.nonzero(matches.labels == number)
        order = np.argsort(-matches.scores[image, place], kind="stable")
        image, place = image[order], place[order]
        hits, ignored = (_bits(values[image, place]) for values in (matches.hits, matches.ignored))
        rows = max(1, _CELLS // max(len(image), 1))
        for start in range(0, len(counts), rows):
            part = slice(start, start + rows)
            result[part, number] = _of_class(counts[part][:, image], hits & ~ignored, ignored, objects[part, number])
    return 100.0 * result


def mean_ap(matches: Matches, counts: NDArray) -> NDArray[np.float64]:
    """AP in percent, the mean over thresholds and the classes that have objects, of resamples `(draws, n)`."""
    return over_classes(average_precision(matches, counts)).mean(axis=-1)


def over_classes(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the classes that have objects: `(draws, C, 10)` to `(draws, 10)`; 0 where none has."""
    known = ~np.isnan(values)
    return np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)


def _of_class(weights: NDArray, hits: NDArray, ignored: NDArray, objects: NDArray) -> NDArray[np.float64]:
    """Share of precision `(draws, 10)` of one class.

    Args:
        weights: how often each detection counts `(draws, m)`, by falling score.
        hits, ignored: `(10, m)` bool.
        objects: `(draws,)`.
    """
    result = np.full((len(weights), THRESHOLDS), np.nan)
    some = objects > 0
    if not some.any():
        return result
    weights, objects = weights[some], objects[some]
    counted = np.empty(0)
    for threshold in range(THRESHOLDS):
        if threshold == 0 or (ignored[threshold] != ignored[threshold - 1]).any():
            counted = np.cumsum(weights * ~ignored[threshold], axis=1)
        # Precision is highest where a hit has just been added, so only these places can be on the envelope.
        places = np.flatnonzero(hits[threshold])
        found = np.cumsum(weights[:, places], axis=1)
        precision = found / np.maximum(counted[:, places], 1.0)
        envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        envelope = np.pad(envelope, ((0, 0), (0, 1)))  # recalls that are never reached
        recall = found / objects[:, None]
        result[some, threshold] = [
            row[np.searchsorted(reached, _RECALLS)].mean() for row, reached in zip(envelope, recall, strict=True)
        ]
    return result


def _bits(values: NDArray) -> NDArray[np.bool_]:
    """One row per threshold `(10, m)` of bit fields `(m,)`."""
    return (values[None].astype(np.int64) >> np.arange(THRESHOLDS)[:, None] & 1).astype(bool)
