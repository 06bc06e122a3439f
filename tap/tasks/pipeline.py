"""A task that judges its images one by one: what a pass over a split and the probes of a frozen checkpoint share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tap.config.lookup import method_of
from tap.config.schema import JobSpec
from tap.encoder.trace import Trace
from tap.errors import UserError
from tap.plan.endpoints import uses_endpoint
from tap.tasks.base import Batch, Evaluation, SplitName, Task
from tap.tasks.decisions import decision_metrics, decisions_of
from tap.tasks.retention import METRICS, share_of
from tap.tasks.watching import watched

PerImage = Mapping[str, np.ndarray]
"""Arrays whose first axis is the image; `sample_id` is always among them."""


class Pipeline(Task):
    """A task whose evaluation is made of what the model says of each image."""

    @abstractmethod
    def evaluate_batch(self, model: Any, spec: JobSpec, batch: Batch) -> dict[str, np.ndarray]:
        """What the model makes of the images of a batch, beside the truth.

        Args:
            model: in evaluation mode; everything that it says comes through its `encoder`.
            spec: the job.
            batch: evaluation images on the model's device.
        """

    def retained(self, spec: JobSpec, batch: Batch, traces: Sequence[Trace]) -> dict[str, np.ndarray]:
        """Counts of what the pruning left of an image's regions (Sec. Spatial Retention Analysis); none by default.

        Args:
            spec: the job.
            batch: evaluation images.
            traces: of the encoder's passes over them, in the order of `encoder_inputs`.
        """
        return {}

    def examine_batch(self, model: Any, spec: JobSpec, batch: Batch) -> dict[str, np.ndarray]:
        """`evaluate_batch`, beside what was kept where, and what a register decided; arguments as there.

        Regions have no retention under methods that merge patches: what is left stands for more than its place.
        """
        with watched(model.encoder) as traces:
            found = self.evaluate_batch(model, spec, batch)
        if not any(trace.holder for trace in traces):
            found |= self.retained(spec, batch, traces)
        if method_of(spec.method).readout == "learned" and traces[0].removed:
            found |= decisions_of(traces)
        return found

    @abstractmethod
    def losses_of_images(self, model: Any, spec: JobSpec, batch: Batch) -> Tensor:
        """The task's own loss of each evaluation image `(B,)`, float64, without terms of the method; differentiable.

        Args:
            model: in evaluation mode; calls its `encoder` as `evaluate_batch` does.
            spec: the job.
            batch: evaluation images on the model's device.
        """

    def image_losses(self, model: Any, spec: JobSpec, batch: Batch) -> np.ndarray:
        """The numbers of `losses_of_images`."""
        return self.losses_of_images(model, spec, batch).detach().cpu().numpy()

    def sufficient_statistics(self, per_image: PerImage) -> PerImage:
        """The least that `score` reads of `evaluate_batch`'s arrays; probes keep it for a hundred variants at once."""
        return per_image

    @abstractmethod
    def score(self, spec: JobSpec, statistics: PerImage) -> dict[str, float]:
        """Metrics of a split.

        Args:
            spec: the job.
            statistics: of all images, in the split's order.
        """

    def evaluate(self, model: Any, spec: JobSpec, split: SplitName, device: torch.device) -> Evaluation:
        """Metrics of a split with the per-image values behind them; of the common recovery its endpoint as well.

        Raises:
            UserError: the split is empty.
        """
        dataset: Any = self.datasets(spec).get(split)
        if not len(dataset):
            raise UserError(f"{spec.data.root}: the {split} split has no image; check data.calibration and the limits")
        model.eval()
        with torch.inference_mode():
            found = [self.examine_batch(model, spec, batch.to(device)) for batch in self.loader(dataset, spec)]
        per_image = joined(found)
        metrics = self.score(spec, self.sufficient_statistics(per_image)) | decision_metrics(per_image)
        shares = {metric: share_of(name, per_image[name]) for name, metric in METRICS.items() if name in per_image}
        metrics |= {metric: share for metric, share in shares.items() if share is not None}
        if uses_endpoint(spec):
            metrics["recovery_endpoint"] = float(model.encoder.recovery.scale)
        return Evaluation(metrics, per_image)


def joined(parts: Sequence[PerImage]) -> dict[str, np.ndarray]:
    """The arrays of several batches, one after the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def token_counts(statistics: PerImage) -> dict[str, float]:
    """Number of images, mean and spread of the patches that reach the last block."""
    tokens = statistics["final_tokens"]
    return {
        "images": float(len(tokens)),
        "final_tokens_mean": float(np.mean(tokens)),
        "final_tokens_sd": float(np.std(tokens)),
    }
