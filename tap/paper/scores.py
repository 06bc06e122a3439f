"""Scores from the values of single images: what a stated score is held against, independent of the code that stated it.

Evaluation scores with the libraries of the field (MMSegmentation's metric, COCO's evaluation); this is the arithmetic
of the bootstrap (`tap.paper.statistics`) on the images as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tap.config.methods import SCORES
from tap.errors import UserError
from tap.paper.difference import Difference, same
from tap.paper.statistics import RETAINED, contributions, point
from tap.task_facts import METRICS
from tap.tasks.detection.average_precision import KINDS, SIZES, average_precision, matches_of, over_classes

_OF_IMAGES: Final = re.compile(
    r"iou_\d+|pixel_accuracy|constant_miou|(box|mask)_ap_?\w+|images|final_tokens_(mean|sd)|"
    r"(removal_share|recovery_scale)_\d+(_sd)?|" + "|".join(RETAINED)
)


def read_arrays(path: Path, what: str = "evaluate the run again") -> dict[str, NDArray]:
    """Per-image values `(n, ...)` by name.

    Args:
        path: the archive.
        what: what mends it if it cannot be read.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise UserError(f"{path}: cannot be read as per-image results ({error}); {what}") from error


def scores_of(task: str, arrays: Mapping[str, NDArray]) -> dict[str, float]:
    """Every number of a run's `metrics.json` that its per-image values decide, by name.

    Args:
        task: cls, seg or det.
        arrays: those of `per_sample.npz`; what they lack has no score.

    Returns:
        Scores in their units, and the counts of images and of patches that reached the last block.
    """
    scores = {}
    for metric in (*SCORES[task], *RETAINED):
        found = contributions(metric, arrays)
        if found is not None:
            scores[metric] = point(*found)
    if task == "seg" and "miou" in scores:
        values = arrays["areas"] if "areas" in arrays else areas(arrays["confusion"])
        scores |= _class_scores(values.sum(axis=0, dtype=np.float64))
    if task == "det" and "box_ap" in scores:
        scores |= _of_bands_and_thresholds(arrays)
    scores |= _decisions(arrays)
    if "final_tokens" in arrays:
        tokens = arrays["final_tokens"].astype(np.float64)
        scores |= {"final_tokens_mean": float(tokens.mean()), "final_tokens_sd": float(tokens.std())}
    return scores | {"images": float(len(arrays["sample_id"]))} if "sample_id" in arrays else scores


def is_of_images(name: str) -> bool:
    """Whether a metric is one that per-image values decide."""
    return name in METRICS or _OF_IMAGES.fullmatch(name) is not None


def differing(
    file: str, stated: Mapping[str, Any], given: Mapping[str, float], complete: bool = False
) -> list[Difference]:
    """Stated scores that the values of single images do not give.

    Args:
        file: who states them.
        stated: any metrics.
        given: what `scores_of` found.
        complete: a score that is stated and not given, or given and not stated, is a difference, too.
    """
    found = {name for name in stated.keys() & given if not same(stated[name], given[name])}
    if complete:
        found |= {name for name in stated.keys() ^ given if name in given or is_of_images(name)}
    return [Difference(file, name, stated.get(name), given.get(name)) for name in sorted(found)]


def areas(confusion: NDArray) -> NDArray:
    """Pixels that are right, predicted and labelled, by class `(n, 3, C)`, of confusion matrices `(n, C, C)`."""
    hits = np.diagonal(confusion, axis1=-2, axis2=-1)
    return np.stack([hits, confusion.sum(axis=-2), confusion.sum(axis=-1)], axis=-2)


def _class_scores(sums: NDArray) -> dict[str, float]:
    """IoU of every class that occurs, pixel accuracy, and what the most frequent class everywhere would reach.

    Args:
        sums: pixels of the split that are right, predicted and labelled, by class `(3, C)`.
    """
    hits, predicted, labelled = sums
    union = predicted + labelled - hits
    scores = {f"iou_{number}": float(100.0 * hits[number] / union[number]) for number in np.flatnonzero(union > 0)}
    scores["pixel_accuracy"] = float(100.0 * hits.sum() / labelled.sum())
    scores["constant_miou"] = float(100.0 * labelled.max() / labelled.sum() / (labelled > 0).sum())
    return scores


def _decisions(arrays: Mapping[str, NDArray]) -> dict[str, float]:
    """Mean and SD over images of what a register decided: shares of the budget in percent, recovery scales."""
    scores = {}
    for name, values in arrays.items():
        unit = 100.0 if name.startswith("removal_share_") else 1.0 if name.startswith("recovery_scale_") else None
        known = values[~np.isnan(values)] if unit is not None else np.empty(0)
        if unit is not None and len(known):
            scores |= {name: unit * float(known.mean()), f"{name}_sd": unit * float(known.std())}
    return scores


def _of_bands_and_thresholds(arrays: Mapping[str, NDArray]) -> dict[str, float]:
    """AP at single overlaps and of the size bands that have objects, by boxes and by masks."""
    scores, everything = {}, np.ones((1, len(arrays["labels"])))
    for kind in KINDS:
        by_threshold = over_classes(average_precision(matches_of(arrays, kind), everything))[0]
        scores |= {f"{kind}_ap50": float(by_threshold[0]), f"{kind}_ap75": float(by_threshold[5])}
        for band, size in enumerate(SIZES):
            if size != SIZES[0] and arrays["objects"][:, band].any():
                matches = matches_of(arrays, kind, size)
                scores[f"{kind}_ap_{size}"] = float(over_classes(average_precision(matches, everything)).mean())
    return scores
