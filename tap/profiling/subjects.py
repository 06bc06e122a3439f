"""The models that a profile times: a scale's shapes with random weights, which decide no count and no time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tap.config.load import load_scale
from tap.config.methods import TAP
from tap.core.budget import Allocation, allocate, keep_count
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.engine.calibration import find_threshold
from tap.plan.controls import ARRAYS
from tap.plan.profiles import Shapes, Split, method_and_rate
from tap.plan.specs import job_spec
from tap.reducers.tap import Tap
from tap.runs import Run
from tap.task_facts import TASKS
from tap.tasks.registry import get_task

_HEADS = {"det": {"tasks.det.model.detector.score_threshold": 0.015}}
"""Random heads score all classes alike, 1/81: slightly above that, the mask head gets its objects."""


def build(shapes: Shapes, task: str, name: str, device: torch.device, split: Split | None = None) -> Any:
    """A subject's whole model, head included, in evaluation mode.

    Args:
        shapes: the scale whose sizes it has.
        task: cls, seg or det.
        name: a method, or one at another than the main keep rate such as ``tap@0.30``.
        device: where it computes.
        split: mean share and SD of TAP's removals at each pruning block, in percent; None leaves the readout's own.
    """
    # The endpoint of the common recovery is chosen on trained weights; full offset and stand-in alone cost the same.
    settings = {f"tasks.{task}.recovery.endpoint": 1.0} if TASKS[task].dense else {}
    cfg = load_scale(shapes, settings | (_HEADS.get(task, {}) if shapes == "paper" else {}))
    method, rate = method_and_rate(name, cfg.main_rate)
    spec = job_spec(cfg, Run(shapes, task, method, rate))
    model: Any = get_task(spec).build_model(spec)
    if split is not None and isinstance(model.encoder.reducer, Tap):
        follow(model.encoder.reducer, split)
    return model.to(device).eval().requires_grad_(False)


def infer(model: Any, images: Tensor, ids: Tensor) -> object:
    """All that the task needs of a pass."""
    return model.infer(images, ids) if hasattr(model, "infer") else model(images, ids)


def follow(reducer: Tap, split: Split) -> None:
    """Has TAP remove printed shares of the budget instead of its readout's, which is read all the same.

    Image `b` of a batch of B gets the mean plus SD times the b-th of B normal quantiles, turned by the block, so that
    counts spread over images as they do in a trained model, and every run has the same.
    """
    means = [mean for mean, _ in split]

    def allocated(layer: int, tokens: Tokens, register_state: Tensor, state: ForwardState) -> Allocation:
        layers = reducer.settings.layers
        counts = tokens.layout.counts_tensor
        budget = counts - state.keep_count
        if layer == layers[-1]:
            return allocate(None, budget, counts, last=True)
        place = layers.index(layer)
        read = reducer.controller.share_logit(register_state)
        images = torch.arange(len(read), device=read.device).roll(place)
        spread = torch.special.ndtri((images + 0.5) / len(read)) * split[place][1]
        left = sum(means[place:])
        share = ((means[place] + spread) / left).clamp(1e-4, 1 - 1e-4)
        return allocate(torch.logit(share) + 0 * read, budget, counts, last=False)

    reducer.allocate = allocated  # type: ignore[method-assign]


def trained_split(shapes: Shapes, task: str, root: Path = Path(".")) -> tuple[Path, Split] | None:
    """Mean share and SD over validation images of TAP's removals, in percent, as a scale's trained TAP-J decides them.

    Returns:
        The file that tells them, which the controls of the first seed's checkpoint have written, and the split; None
        where there is none.
    """
    cfg = load_scale(shapes)
    run = Run(shapes, task, TAP, cfg.main_rate, seed=cfg.all_tasks[task].seeds[0])  # type: ignore[index]
    path = root / run.folder / ARRAYS
    if not path.is_file():
        return None
    with np.load(path) as arrays:
        shares = 100 * arrays["shares"]
    return path, tuple((float(mean), float(sd)) for mean, sd in zip(shares.mean(0), shares.std(0), strict=True))


def meet_count(model: Any, images: Tensor, ids: Tensor) -> float:
    """Sets the threshold of a method with a varying count to a mean of K on these images; the mean count reached."""
    encoder, reducer = model.encoder, model.encoder.reducer
    rows, columns = (
        side // patch for side, patch in zip(images.shape[2:], encoder.vit.patch_embed.patch_size, strict=True)
    )
    wanted = keep_count(rows * columns, reducer.keep_rate)

    def count(threshold: float) -> tuple[float, float]:
        reducer.threshold.fill_(threshold)
        return sum(encoder(images, ids).final_counts) / len(images), wanted

    if reducer.method.calibrated:
        reducer.threshold.fill_(find_threshold(count, *reducer.threshold_range)[0])
    return sum(encoder(images, ids).final_counts) / len(images)
