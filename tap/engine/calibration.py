"""The threshold of methods whose counts vary: the mean final count of the calibration split is brought to K.

Some methods leave more patches in one image than in another, and a threshold decides how many. It is a buffer of the
reducer, so the published weights hold it. Bisection finds it; the images keep their own counts, whose mean and spread
every evaluation reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import Subset

from tap.config.schema import JobSpec
from tap.core.budget import keep_count
from tap.errors import UserError
from tap.reducers.base import Reducer
from tap.tasks.base import Task
from tap.tasks.subsets import shuffled

STEPS = 24
TOLERANCE = 0.002
"""Share of K up to which a mean count is K."""


def calibrate(spec: JobSpec, task: Task, model: Any, device: torch.device, first: bool = False) -> dict[str, float]:
    """Sets the threshold of `model`'s reducer, where it has one; the result depends on weights, data and settings.

    Args:
        spec: the run.
        task: opens the calibration split.
        model: what the task has built; is moved to `device` and left in the mode it had.
        device: where to compute.
        first: the calibration before the training, which only some methods ask for.

    Returns:
        Facts for the record: the threshold, the mean count and the number of images; none without a threshold.

    Raises:
        UserError: the calibration split is empty.
    """
    reducer: Any = getattr(getattr(model, "encoder", None), "reducer", None)
    calibrated = isinstance(reducer, Reducer) and reducer.method.calibrated
    if not calibrated or spec.rate == 1.0 or (first and not reducer.calibrated_first):
        return {}
    batches = _batches(spec, task)
    model.to(device)
    training = model.training
    model.eval()
    reducer.set_progress(1.0)

    def count(threshold: float) -> tuple[float, float]:
        """Mean final count and mean K with a threshold."""
        reducer.threshold.fill_(threshold)
        found, wanted = 0, 0
        with torch.inference_mode():
            for images, ids in batches:
                output = model.encoder(images.to(device), ids.to(device))
                found += sum(output.final_counts)
                wanted += len(images) * keep_count(math.prod(output.size), spec.rate)
        return found / total, wanted / total

    total = sum(len(images) for images, _ in batches)
    threshold, mean, wanted = bisect(count, *reducer.threshold_range)
    reducer.threshold.fill_(threshold)
    model.train(training)
    return {
        "calibrated_threshold": threshold,
        "calibrated_mean_count": mean,
        "calibrated_to": wanted,
        "calibration_images": float(total),
    }


def bisect(count: Callable[[float], tuple[float, float]], low: float, high: float) -> tuple[float, float, float]:
    """The threshold in [low, high] whose mean count is nearest to K among those tried, with both numbers."""
    best = (low, math.inf, 0.0)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        mean, wanted = count(middle)
        if abs(mean - wanted) < abs(best[1] - wanted):
            best = middle, mean, wanted
        if abs(mean - wanted) <= TOLERANCE * wanted:
            break
        low, high = (middle, high) if mean < wanted else (low, middle)
    return best


def _batches(spec: JobSpec, task: Task) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Images and sample ids of the calibration split, or of as many of it as the settings allow."""
    dataset: Any = task.datasets(spec).calibration
    if not len(dataset):
        raise UserError(
            f"{spec.data.root}: the calibration split has no image, and {spec.method} needs one to find its threshold; "
            "raise data.calibration"
        )
    chosen = shuffled(len(dataset), spec.data.name, "thresholds")[: spec.data.limit_calibration]
    loader = task.loader(Subset(dataset, sorted(chosen.tolist())), spec)
    return [(batch.images, batch.sample_ids) for batch in loader]
