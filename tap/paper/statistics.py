"""Metrics as functions of sums over independent units, and these sums on resamples of the units.

The bootstrap works on *contributions*: one array per image whose sum over images determines the metric. Accuracy is a
function of the summed (correct, counted) pairs, mean IoU of the summed confusion matrices, average precision of how
often each image is drawn. A resample of the images is
a vector of counts, so the sums of all resamples are one matrix product.

A unit is an image, or where the per-image values name places (`place`) all views of one place together: frames of the
same cells are no independent draws.

Two methods are compared on the same resamples of the same units. The seeds of one method were evaluated on the same
units too, so one resample serves all of them: difficult images are difficult for every seed, and separate resamples
would let that cancel and make the interval too short. `tap.paper.estimate` resamples the seeds as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from tap.errors import UserError
from tap.seeds import derive_seed
from tap.task_facts import METRICS, PLACE
from tap.tasks.detection.average_precision import matches_of, mean_ap

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]

DRAWS = 2000
LEVEL = 0.95
RETAINED: Final[Mapping[str, str]] = {
    "boundary_retention": "boundary",
    "class_coverage": "classes",
    "box_interior_retention": "box_interior",
    "small_object_coverage": "small_objects",
}
"""Arrays of (kept, all) counts of single images by the metric in percent that they give (tab:spatial-statistics)."""
_KEPT: ContextVar[dict[str, Array] | None] = ContextVar("kept replicates", default=None)
_CELLS = 4_000_000  # of the matrices of counts and of sums made at once: 32 MB each


@dataclass(frozen=True)
class Interval:
    """An estimate between its bounds."""

    estimate: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 if the whole interval lies on that side of zero, else 0."""
        return int(self.low > 0) - int(self.high < 0)


def sample_sd(values: Sequence[float]) -> float | None:
    """Standard deviation with n - 1; None for fewer than two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def accuracy(sums: Array) -> Array:
    """Percent correct of summed (correct, counted) pairs `(..., 2)`."""
    return 100.0 * sums[..., 0] / sums[..., 1]


def mean_iou(sums: Array) -> Array:
    """Mean IoU in percent of summed confusion matrices `(..., C, C)`, over the classes that occur.

    A class that is neither labelled nor predicted in a resample has no IoU and is left out of that mean.
    """
    hits = np.diagonal(sums, axis1=-2, axis2=-1)
    return mean_iou_of_areas(np.stack([hits, sums.sum(axis=-2), sums.sum(axis=-1)], axis=-2))


def mean_iou_of_areas(sums: Array) -> Array:
    """`mean_iou` from what is right, predicted and labelled, by class and summed over images `(..., 3, C)`."""
    hits, predicted, labelled = np.moveaxis(sums, -2, 0)
    union = predicted + labelled - hits
    occurs = union > 0
    iou = np.divide(hits, union, out=np.zeros_like(hits, dtype=float), where=occurs)
    return 100.0 * iou.sum(axis=-1) / np.maximum(occurs.sum(axis=-1), 1)


def mean(sums: Array) -> Array:
    """Mean of summed (value, counted) pairs `(..., 2)`; NaN where a resample counts nothing."""
    counted = sums[..., 1]
    return np.divide(sums[..., 0], counted, out=np.full_like(counted, np.nan), where=counted > 0)


def root_mean(sums: Array) -> Array:
    """Root of the mean, such as an RMSE of squared errors."""
    return np.sqrt(mean(sums))


def share(sums: Array) -> Array:
    """Percent of summed (part, whole) pairs `(..., 2)`; NaN where a resample has nothing of the whole."""
    return 100.0 * mean(sums)


def contributions(metric: str, arrays: Mapping[str, NDArray]) -> tuple[Array, Statistic] | None:
    """What a metric's bootstrap needs, from the arrays of `per_sample.npz`.

    Args:
        metric: ``top1``, ``miou``, ``box_ap`` or ``mask_ap``, one of `RETAINED`, or one whose task's entry says that it
            is pooled.
        arrays: for ``top1`` ``correct`` `(n,)`; for ``miou`` ``confusion`` `(n, C, C)`, or what IoU needs of it:
            ``areas`` `(n, 3, C)`, the pixels of each class that are right, predicted and labelled; for AP what
            `tap.tasks.detection.metrics.match` gives; for a pooled metric ``<metric>_sums`` `(n, 2)`.

    Returns:
        Contributions of the units `(n, ...)`, which are images or, with an array ``place`` `(n,)`, places, and the
        statistic of their sums; None if the metric is no function of a sum, or the arrays are not there.
    """
    found = _of_images(metric, arrays)
    return found if found is None else (of_units(found[0], arrays.get(PLACE)), found[1])


def of_units(values: Array, places: NDArray | None) -> Array:
    """Sums over what a bootstrap draws as one.

    Args:
        values: contributions of single images `(n, ...)`.
        places: what each is a view of `(n,)`; None where each stands for itself.
    """
    if places is None:
        return values
    known, number = np.unique(places, return_inverse=True)
    sums = np.zeros((len(known), *values.shape[1:]))
    np.add.at(sums, number, values)
    return sums


def _of_images(metric: str, arrays: Mapping[str, NDArray]) -> tuple[Array, Statistic] | None:
    if metric == "top1" and "correct" in arrays:
        correct = arrays["correct"].astype(np.float64)
        return np.stack([correct, np.ones_like(correct)], axis=1), accuracy
    if metric == "miou" and "confusion" in arrays:
        return arrays["confusion"].astype(np.float64), mean_iou
    if metric == "miou" and "areas" in arrays:
        return arrays["areas"].astype(np.float64), mean_iou_of_areas
    if RETAINED.get(metric) in arrays:
        counts = arrays[RETAINED[metric]].astype(np.float64)
        if not counts[:, 1].any():
            return None
        if metric == "class_coverage":  # the mean over images of their shares, not the share of all classes
            present = counts[:, 1] > 0
            counts = np.stack([np.divide(*counts.T, out=np.zeros(len(counts)), where=present), present], axis=1)
        return counts, share
    if metric in ("box_ap", "mask_ap") and "objects" in arrays:
        # AP is no function of sums over images, but of how often each of them is drawn: the sum of unit vectors.
        matches = matches_of(arrays, metric.removesuffix("_ap"))
        return np.eye(len(arrays["objects"])), partial(mean_ap, matches)
    pooled = METRICS[metric].pooled if metric in METRICS else ""
    if pooled and f"{metric}_sums" in arrays:
        return arrays[f"{metric}_sums"].astype(np.float64), root_mean if pooled == "root" else mean
    return None


def point(values: Array, statistic: Statistic) -> float:
    """The statistic of the units as they are, each drawn once; `values` are contributions `(n, ...)`."""
    return float(statistic(values.sum(axis=0, dtype=np.float64)[None])[0])


def replicates(values: Array, statistic: Statistic, *, seed: int, draws: int = DRAWS) -> Array:
    """The statistic on `draws` resamples of the units.

    Args:
        values: contributions of the units `(n, ...)`.
        statistic: maps sums `(draws, ...)` to `(draws,)`.
        seed: decides the resamples. With the same seed and number of units they are the same, which is what pairs two
            methods.
        draws: number of resamples.

    Returns:
        `(draws,)`.

    Raises:
        UserError: there is no image.
    """
    images, kept = len(values), _KEPT.get()
    if images == 0:
        raise UserError("bootstrap: there is no image to resample; evaluate the run again")
    key = "" if kept is None else _identity(values, statistic, seed, draws)
    if kept is not None and key in kept:
        return kept[key]
    flat = np.ascontiguousarray(values, dtype=np.float64).reshape(images, -1)
    generator = np.random.default_rng(seed)
    chunk = max(1, _CELLS // max(images, flat.shape[1]))
    results = []
    for start in range(0, draws, chunk):
        rows = min(chunk, draws - start)
        picked = generator.integers(0, images, size=(rows, images))
        picked += np.arange(rows)[:, None] * images
        counts = np.bincount(picked.ravel(), minlength=rows * images).reshape(rows, images)
        sums = counts.astype(np.float64) @ flat
        results.append(statistic(sums.reshape(rows, *values.shape[1:])))
    found = np.concatenate(results)
    if kept is not None:
        kept[key] = found
    return found


@contextmanager
def kept_replicates() -> Iterator[None]:
    """Resamples are computed once for as long as the context lasts, for whoever asks for the same ones."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def _identity(values: Array, statistic: Statistic, seed: int, draws: int) -> str:
    """A hash of all that decides the replicates: two statistics are one if they are made of the same values."""
    function, given = (statistic.func, statistic.args) if isinstance(statistic, partial) else (statistic, ())
    digest = hashlib.sha256(f"{function.__qualname__} {seed} {draws} {values.shape}".encode())
    arrays = [values, *(part for item in given for part in vars(item).values())]
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def interval(estimate: float, resampled: Array, level: float = LEVEL) -> Interval:
    """Percentile interval of resampled values `(draws,)`, over those of them that are defined; NaN without any."""
    tail, known = (1.0 - level) / 2.0, resampled[~np.isnan(resampled)]
    low, high = np.quantile(known, [tail, 1.0 - tail]) if len(known) else (np.nan, np.nan)
    return Interval(float(estimate), float(low), float(high))


def spearman(a: Array, b: Array) -> Array:
    """Spearman's rank correlation along the last axis (the other axes broadcast); NaN where one side is constant."""
    ranks = [rankdata(values, axis=-1) for values in (a, b)]
    centred = [values - values.mean(axis=-1, keepdims=True) for values in ranks]
    scale = np.sqrt((centred[0] ** 2).sum(axis=-1) * (centred[1] ** 2).sum(axis=-1))
    product = (centred[0] * centred[1]).sum(axis=-1)
    return np.divide(product, scale, out=np.full_like(product, np.nan), where=scale > 0)


def resampled_correlation(a: Array, b: Array) -> Array:
    """Spearman's correlation on resamples, each of which also draws the items that are ranked, with replacement.

    Args:
        a: values of the items on every resample `(draws, n)`.
        b: the same of the other side, `(draws, n)`, or `(1, n)` where it does not change.
    """
    draws, items = a.shape
    generator = np.random.default_rng(derive_seed("bootstrap of items", items))
    picked = generator.integers(0, items, size=(draws, items))
    return spearman(*(np.take_along_axis(np.broadcast_to(side, a.shape), picked, axis=1) for side in (a, b)))
