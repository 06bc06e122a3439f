"""Runs controls of one checkpoint over a split, and shows for each what it held fixed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tap.config.schema import JobSpec
from tap.controls.encoder import ControlledEncoder, Decisions
from tap.controls.policies import Control, Means
from tap.encoder.swap import swapped_encoder
from tap.errors import UserError
from tap.tasks.base import SplitName
from tap.tasks.drawn_images import drawn
from tap.tasks.pipeline import PerImage, Pipeline, joined


@dataclass(frozen=True)
class ControlResult:
    """One control on the images of a split.

    Attributes:
        per_image: the least that the task's score reads of each image.
        removals: patches removed in each encoder pass (an image, or one of its windows) and block `(P, M)`, int64.
        budget: patches that every pass had to lose `(P,)`, int64.
        digest: sha256 of the selected sets and layer allocations of all passes, in the order of the images.
    """

    per_image: PerImage
    removals: np.ndarray
    budget: np.ndarray
    digest: str

    @property
    def exact(self) -> int:
        """Passes in which the removals sum to N - K (Eq. S3)."""
        return int((self.removals.sum(axis=1) == self.budget).sum())

    @property
    def shares(self) -> np.ndarray:
        """Mean share of the removal budget at each pruning block `(M,)`."""
        return (self.removals / self.budget[:, None]).mean(axis=0)


@dataclass(frozen=True)
class RegisterOutputs:
    """What the register decides for every image, from one pass of the encoder alone.

    Attributes:
        sample_id: `(P,)`; an image in several windows appears several times.
        shares: share of the removal budget at each pruning block `(P, M)`.
        scales: recovery scale at each pruning block `(P, M)`; NaN where nothing was left to remove; `(P, 0)` for a task
            without recovery.
    """

    sample_id: np.ndarray
    shares: np.ndarray
    scales: np.ndarray

    @property
    def means(self) -> Means:
        """Over the images; of the scales over those that have one."""
        scales = np.nanmean(self.scales, axis=0) if self.scales.size else ()
        return Means(tuple(map(float, self.shares.mean(axis=0))), tuple(map(float, scales)))


def images_of(task: Pipeline, spec: JobSpec, split: SplitName, images: int | None = None) -> Any:
    """A split, or that many of its images, drawn as a function of the data set alone.

    Raises:
        UserError: the split is empty, or smaller than what is asked for.
    """
    dataset: Any = task.datasets(spec).get(split)
    if not len(dataset):
        raise UserError(f"{spec.data.root}: the {split} split has no image; check data.calibration and the limits")
    if images is not None and images > len(dataset):
        raise UserError(
            f"controls: {images} images of the {split} split of {spec.task} are asked for, and it has {len(dataset)}; "
            "ask for fewer, or raise data.calibration and the limits"
        )
    return drawn(dataset, images, spec.data.name, "controls")


def register_outputs(task: Pipeline, model: Any, spec: JobSpec, dataset: Any, device: torch.device) -> RegisterOutputs:
    """Allocation and recovery scale of every image; the head is not run.

    Args:
        task: the pipeline.
        model: with its weights, on `device`.
        spec: its settings.
        dataset: images, as `images_of` gives them.
        device: where the model is.
    """
    model.eval()
    ids, shares, scales = [], [], []
    layers = model.encoder.reducer.settings.layers
    with torch.inference_mode():
        for batch in task.loader(dataset, spec):
            batch = batch.to(device)
            for images in task.encoder_inputs(spec, batch.images):
                trace = model.encoder(images, batch.sample_ids, return_trace=True).trace
                nothing = torch.full((len(images),), float("nan"), device=device)
                ids.append(batch.sample_ids.cpu().numpy())
                shares.append(trace.shares.cpu().numpy())
                if model.encoder.read_blocks:
                    found = [trace.scales.get(layer, nothing).float() for layer in layers]
                    scales.append(torch.stack(found, dim=1).cpu().numpy())
    known = np.concatenate(scales) if scales else np.empty((sum(map(len, ids)), 0))
    return RegisterOutputs(np.concatenate(ids), np.concatenate(shares), known)


def evaluate_controls(
    task: Pipeline, model: Any, spec: JobSpec, controls: Sequence[Control], dataset: Any, device: torch.device
) -> tuple[dict[str, ControlResult], ControlledEncoder]:
    """Runs all controls in one pass over the images.

    Args:
        task: the pipeline.
        model: the TAP model with its weights, on `device`; left as it was.
        spec: its settings.
        controls: any order; names must differ.
        dataset: images, as `images_of` gives them.
        device: where the model is.

    Returns:
        What each control gave, by its name, and the encoder with its count of blocks.

    Raises:
        UserError: the checkpoint has no register, or a control does not fit it.
        ValueError: an image loses more or fewer patches than the budget says.
    """
    plan = sorted(controls, key=lambda control: (control.schedule is not None, control.schedule or ()))
    parts: dict[str, list[PerImage]] = {control.name: [] for control in plan}
    decided: dict[str, list[Decisions]] = {control.name: [] for control in plan}
    encoder = ControlledEncoder(model.encoder, controls)
    with swapped_encoder(model, encoder):
        for batch in task.loader(dataset, spec):
            batch = batch.to(device)
            for control in encoder.each(plan):
                parts[control.name].append(task.sufficient_statistics(task.evaluate_batch(model, spec, batch)))
                decided[control.name] += encoder.decisions
    return {name: _result(name, joined(parts[name]), decided[name]) for name in parts}, encoder


def _result(name: str, per_image: PerImage, decided: Sequence[Decisions]) -> ControlResult:
    digest = hashlib.sha256()
    for part in decided:
        digest.update(part.removed_at.cpu().numpy().tobytes())
    removals = np.concatenate([part.removals.cpu().numpy() for part in decided])
    budget = np.concatenate([np.full(len(part.removals), part.budget) for part in decided])
    found = ControlResult(per_image, removals, budget, digest.hexdigest())
    if found.exact != len(budget):
        raise ValueError(f"control '{name}': {len(budget) - found.exact} of {len(budget)} passes miss the budget")
    return found
