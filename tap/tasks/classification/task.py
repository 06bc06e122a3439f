"""Classification: top-1 accuracy of a linear head on the class token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tap.config.schema import JobSpec
from tap.reducers.base import TrainingPass
from tap.reducers.build import build_encoder
from tap.seeds import derive_seed
from tap.task_facts import CLS
from tap.tasks.base import Batch, Sample, Splits, with_terms
from tap.tasks.classification.data import Collate, open_splits
from tap.tasks.classification.model import Classifier
from tap.tasks.pipeline import PerImage, Pipeline, token_counts


class Classification(Pipeline):
    """ImageNet-1K at paper scale, Fashion-MNIST below it."""

    facts = CLS

    def datasets(self, spec: JobSpec) -> Splits:
        """Opens the prepared images."""
        return open_splits(spec)

    def collate(self, spec: JobSpec, train: bool) -> Callable[[Sequence[Sample]], Batch]:
        """Batches with Mixup, CutMix and label smoothing where the settings ask for them."""
        return Collate(spec, train)

    def build_model(self, spec: JobSpec) -> Classifier:
        """Encoder and linear head; the head of a seed is the same for all methods."""
        encoder = build_encoder(spec, self.facts)
        with torch.random.fork_rng():
            torch.manual_seed(derive_seed(spec.seed, "head"))
            return Classifier(encoder, spec.data.num_classes)

    def loss(self, model: Any, batch: Batch, progress: float) -> tuple[Tensor, dict[str, float]]:
        """Cross entropy against classes or class shares, and what the method adds."""
        output = model.encoder(batch.images, batch.sample_ids)
        logits = model.classify(output).float()
        teacher = None if model.teacher is None else model.teacher(batch.images, batch.sample_ids)
        given = TrainingPass(model.encoder, output, logits, batch.targets, teacher=teacher)
        reducer = model.encoder.reducer
        return with_terms(F.cross_entropy(logits, batch.targets), reducer.losses(given), reducer.task_weight)

    def evaluate_batch(self, model: Classifier, spec: JobSpec, batch: Batch) -> dict[str, np.ndarray]:
        """Whether the top class is right, and how many patches reached the last block."""
        logits, trace = model(batch.images, batch.sample_ids, return_trace=True)
        return {
            **batch.identity,
            "correct": (logits.argmax(dim=1) == batch.targets).cpu().numpy(),
            "final_tokens": trace.final_counts.cpu().numpy(),
        }

    def losses_of_images(self, model: Classifier, spec: JobSpec, batch: Batch) -> Tensor:
        """Cross entropy against the class."""
        logits = model(batch.images, batch.sample_ids)
        return F.cross_entropy(logits.double(), batch.targets, reduction="none")

    def score(self, spec: JobSpec, statistics: PerImage) -> dict[str, float]:
        """Top-1 accuracy in percent and the realised token counts."""
        return {"top1": 100.0 * float(np.mean(statistics["correct"])), **token_counts(statistics)}
