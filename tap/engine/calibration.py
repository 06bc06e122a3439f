"""The threshold of methods whose counts vary: the mean final count of the calibration split is brought to K.

Some methods leave more patches in one image than in another, and a threshold decides how many. It is a buffer of the
reducer, so the published weights hold it. It is searched on what the encoder sees in an evaluation: whole images, or
windows. The images keep their own counts, whose mean and spread every evaluation reports.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from tap.config.schema import JobSpec
from tap.core.budget import keep_count
from tap.errors import UserError
from tap.plan.runs import run_of
from tap.reducers.base import Reducer
from tap.tasks.base import Task
from tap.tasks.drawn_images import drawn

STEPS, ROUNDS = 24, 2
TOLERANCE = 0.002
"""Share of K up to which a mean count is K."""

MISS = 0.05
"""Share of K from which a mean count misses it, so that the search goes on, and says so if it ends there."""


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
        found, wanted = 0.0, 0.0
        with torch.inference_mode():
            for images, ids in batches:
                passes = task.encoder_inputs(spec, images)  # an image's count is its mean over the passes
                for part in passes:
                    output = model.encoder(part.to(device), ids.to(device))
                    found += sum(output.final_counts) / len(passes)
                    wanted += len(images) * keep_count(math.prod(output.size), spec.rate) / len(passes)
        return found / total, wanted / total

    total = sum(len(images) for images, _ in batches)
    threshold, mean, wanted = find_threshold(count, *reducer.threshold_range)
    reducer.threshold.fill_(threshold)
    model.train(training)
    if abs(mean - wanted) > MISS * wanted:
        print(
            f"{run_of(spec).id}: no threshold leaves a mean of {wanted:.1f} patches on the calibration split; with the "
            f"nearest, {threshold:g}, it is {mean:.1f}",
            file=sys.stderr,
        )
    return {
        "calibrated_threshold": threshold,
        "calibrated_mean_count": mean,
        "calibrated_to": wanted,
        "calibration_images": float(total),
    }


def find_threshold(
    count: Callable[[float], tuple[float, float]], low: float, high: float
) -> tuple[float, float, float]:
    """The threshold in [low, high] whose mean count is nearest to K among those tried, with mean count and mean K.

    Bisection, which is enough where the count rises with the threshold. Where that misses K by more than `MISS`, since
    a count falls in between or jumps over K, it goes on between all thresholds that were tried: looks half-way, and
    bisects wherever two neighbours have K between them.

    Args:
        count: mean count and mean K with a threshold.
        low, high: where to look.
    """
    tried: dict[float, tuple[float, float]] = {}

    def beyond(threshold: float) -> float:
        """Mean count minus mean K."""
        if threshold not in tried:
            tried[threshold] = count(threshold)
        return tried[threshold][0] - tried[threshold][1]

    def nearest() -> float:
        return min(tried, key=lambda threshold: abs(beyond(threshold)))

    def is_within(share: float) -> bool:
        return abs(beyond(nearest())) <= share * tried[nearest()][1]

    def bisect(below: float, above: float, steps: int) -> None:
        for _ in range(steps):
            middle = 0.5 * (below + above)
            below, above = (middle, above) if beyond(middle) < 0 else (below, middle)
            if is_within(TOLERANCE):
                return

    bisect(low, high, STEPS)
    for _ in range(ROUNDS):
        if is_within(MISS):
            break
        for left, right in pairwise(sorted({low, high, *tried})):
            for threshold in (left, 0.5 * (left + right), right):
                beyond(threshold)
        for one, other in pairwise(sorted(tried)):
            if beyond(one) * beyond(other) < 0 and not is_within(MISS):
                bisect(*sorted((one, other), key=beyond), STEPS // 3)
    return nearest(), *tried[nearest()]


def _batches(spec: JobSpec, task: Task) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Images and sample ids of the calibration split, or of as many of it as the settings allow."""
    dataset: Any = task.datasets(spec).calibration
    if not len(dataset):
        raise UserError(
            f"{spec.data.root}: the calibration split has no image, and {spec.method} needs one to find its threshold; "
            "raise data.calibration"
        )
    loader = task.loader(drawn(dataset, spec.data.limit_calibration, spec.data.name, "thresholds"), spec)
    return [(batch.images, batch.sample_ids) for batch in loader]
