"""MAE pre-training as a task: any task's images, no labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tap.config.schema import JobSpec
from tap.core.noise import stateless_uniform
from tap.reducers.build import build_encoder
from tap.seeds import derive_seed
from tap.tasks.base import Batch, Evaluation, Sample, SplitName, Splits, Task
from tap.tasks.pretraining.mae import MaskedAutoencoder


class Pretraining(Task):
    """Reads the images of another task and reconstructs hidden patches.

    Args:
        task: whose images.
    """

    def __init__(self, task: Task) -> None:
        self.task, self.facts = task, task.facts

    def datasets(self, spec: JobSpec) -> Splits:
        """The other task's data."""
        return self.task.datasets(spec)

    def collate(self, spec: JobSpec, train: bool) -> Callable[[Sequence[Sample]], Batch]:
        """The other task's batches."""
        return self.task.collate(spec, train)

    def build_model(self, spec: JobSpec) -> nn.Module:
        """Backbone and decoder."""
        encoder = build_encoder(
            spec.model_copy(update={"method": "dense", "rate": 1.0, "model": spec.model.plain}), self.facts
        )
        with torch.random.fork_rng():
            torch.manual_seed(derive_seed(spec.seed, "decoder"))
            settings = spec.pretrain
            return MaskedAutoencoder(
                encoder,
                settings.mask_ratio,
                settings.decoder_width,
                settings.decoder_depth,
                settings.decoder_heads,
            )

    def loss(self, model: nn.Module, batch: Batch, progress: float) -> tuple[Tensor, dict[str, float]]:
        """Mean error over hidden patches, with a new random mask at every step."""
        patches = _patches(model, batch.images)
        order = torch.rand(len(batch.images), patches, device=batch.images.device).argsort(dim=1)
        return model(batch.images, order).mean(), {}

    def evaluate(self, model: nn.Module, spec: JobSpec, split: SplitName, device: torch.device) -> Evaluation:
        """Mean error under one fixed mask per image."""
        loader = self.loader(self.datasets(spec).get(split), spec)
        errors, ids = [], []
        model.eval()
        with torch.inference_mode():
            for batch in loader:
                batch = batch.to(device)
                draw = stateless_uniform(0, batch.sample_ids, 0, _patches(model, batch.images))
                errors.append(model(batch.images, draw.argsort(dim=1, stable=True)).mean(dim=1).cpu())
                ids.append(batch.sample_ids.cpu())
        error = torch.cat(errors).numpy()
        return Evaluation(
            {"reconstruction_error": float(np.mean(error, dtype=np.float64))},
            {"sample_id": torch.cat(ids).numpy(), "error": error},
        )


def _patches(model: nn.Module, images: Tensor) -> int:
    down, across = getattr(model, "module", model).patch
    return (images.shape[-2] // down) * (images.shape[-1] // across)
