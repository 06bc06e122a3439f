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
from tap.engine.passes import ALONE, Passes, Rows, rows_of
from tap.errors import UserError
from tap.tasks.base import Batch, SplitName
from tap.tasks.drawn_images import drawn
from tap.tasks.pipeline import PerImage, Pipeline


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


def register_outputs(
    task: Pipeline,
    model: Any,
    spec: JobSpec,
    dataset: Any,
    device: torch.device,
    passes: Passes = ALONE,
    name: str = "register",
) -> RegisterOutputs:
    """Allocation and recovery scale of every image; the head is not run.

    Args:
        task: the pipeline.
        model: with its weights, on `device`.
        spec: its settings.
        dataset: images, as `images_of` gives them.
        device: where the model is.
        passes: keeps what was found.
        name: of the pass.
    """
    model.eval()
    layers = model.encoder.reducer.settings.layers

    def decided(batch: Batch) -> Rows:
        batch = batch.to(device)
        ids, shares, scales = [], [], []
        for images in task.encoder_inputs(spec, batch.images):
            trace = model.encoder(images, batch.sample_ids, return_trace=True).trace
            nothing = torch.full((len(images),), float("nan"), device=device)
            ids.append(batch.sample_ids.cpu().numpy())
            shares.append(trace.shares.cpu().numpy())
            found = [trace.scales.get(layer, nothing).float() for layer in layers if model.encoder.read_blocks]
            scales.append(torch.stack(found, dim=1).cpu().numpy() if found else np.empty((len(images), 0)))
        return {"ids": np.concatenate(ids), "shares": np.concatenate(shares), "scales": np.concatenate(scales)}

    with torch.inference_mode():
        rows = passes.over(name, task, spec, dataset, decided)
    return RegisterOutputs(rows["ids"], rows["shares"], rows["scales"])


def evaluate_controls(
    task: Pipeline,
    model: Any,
    spec: JobSpec,
    controls: Sequence[Control],
    dataset: Any,
    device: torch.device,
    passes: Passes = ALONE,
) -> tuple[dict[str, ControlResult], np.ndarray]:
    """Runs all controls in one pass over the images.

    Args:
        task: the pipeline.
        model: the TAP model with its weights, on `device`; left as it was.
        spec: its settings.
        controls: any order; names must differ.
        dataset: images, as `images_of` gives them.
        device: where the model is.
        passes: keeps what was found.

    Returns:
        What each control gave, by its name, and how many blocks were run, and would have been without sharing `(2,)`.

    Raises:
        UserError: the checkpoint has no register, or a control does not fit it.
        ValueError: an image loses more or fewer patches than the budget says.
    """
    plan = sorted(controls, key=lambda control: (control.schedule is not None, control.schedule or ()))
    encoder = ControlledEncoder(model.encoder, controls)

    def controlled(batch: Batch) -> Rows:
        batch = batch.to(device)
        before, rows = encoder.blocks, {}
        for control in encoder.each(plan):
            found = task.sufficient_statistics(task.evaluate_batch(model, spec, batch))
            rows |= {f"{control.name}/of images/{name}": values for name, values in found.items()}
            rows |= {f"{control.name}/{name}": values for name, values in _decided(encoder.decisions).items()}
        return rows | {"blocks": (encoder.blocks - before)[None]}

    with swapped_encoder(model, encoder):
        rows = passes.over("controls", task, spec, dataset, controlled)
    return {control.name: _result(control.name, rows) for control in plan}, rows["blocks"].sum(axis=0)


def _decided(decisions: Sequence[Decisions]) -> Rows:
    """What the calls of one control decided; of the block before which each patch is removed only the order counts."""
    return {
        "removed at": np.concatenate([part.removed_at.cpu().numpy().reshape(-1) for part in decisions]),
        "removals": np.concatenate([part.removals.cpu().numpy() for part in decisions]),
        "budget": np.concatenate([np.full(len(part.removals), part.budget) for part in decisions]),
    }


def _result(name: str, rows: Rows) -> ControlResult:
    per_image = rows_of(f"{name}/of images", rows)
    removed_at, removals, budget = (rows[f"{name}/{what}"] for what in ("removed at", "removals", "budget"))
    found = ControlResult(per_image, removals, budget, hashlib.sha256(removed_at.tobytes()).hexdigest())
    if found.exact != len(budget):
        raise ValueError(f"control '{name}': {len(budget) - found.exact} of {len(budget)} passes miss the budget")
    return found
