"""Classification: top-1 accuracy of a linear head on the class token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tap.config.schema import JobSpec
from tap.reducers.build import build_encoder
from tap.seeds import derive_seed
from tap.tasks.base import Batch, Evaluation, Sample, SplitName, Splits, Task
from tap.tasks.classification.data import Collate, open_splits
from tap.tasks.classification.model import Classifier


class Classification(Task):
    """ImageNet-1K at paper scale, Fashion-MNIST below it."""

    name = "cls"

    def datasets(self, spec: JobSpec) -> Splits:
        """Opens the prepared images."""
        return open_splits(spec)

    def collate(self, spec: JobSpec, train: bool) -> Callable[[Sequence[Sample]], Batch]:
        """Batches with Mixup, CutMix and label smoothing where the settings ask for them."""
        return Collate(spec, train)

    def build_model(self, spec: JobSpec) -> Classifier:
        """Encoder and linear head; the head of a seed is the same for all methods."""
        encoder = build_encoder(spec)
        with torch.random.fork_rng():
            torch.manual_seed(derive_seed(spec.seed, "head"))
            return Classifier(encoder, spec.data.num_classes)

    def loss(self, model: nn.Module, batch: Batch, progress: float) -> tuple[Tensor, dict[str, float]]:
        """Cross entropy against classes or class shares."""
        return F.cross_entropy(model(batch.images, batch.sample_ids).float(), batch.targets), {}

    def evaluate(self, model: nn.Module, spec: JobSpec, split: SplitName, device: torch.device) -> Evaluation:
        """Top-1 accuracy in percent and the realised token counts, with the per-image values."""
        loader = DataLoader(
            self.datasets(spec).get(split),
            spec.eval.batch_size,
            collate_fn=self.collate(spec, train=False),
            num_workers=spec.data.workers,
        )
        columns: dict[str, list[Tensor]] = {"sample_id": [], "correct": [], "final_tokens": []}
        model.eval()
        with torch.inference_mode():
            for batch in loader:
                batch = batch.to(device)
                logits, trace = model(batch.images, batch.sample_ids, return_trace=True)
                columns["sample_id"].append(batch.sample_ids.cpu())
                columns["correct"].append((logits.argmax(dim=1) == batch.targets).cpu())
                columns["final_tokens"].append(trace.final_counts.cpu())
        per_sample = {name: torch.cat(parts).numpy() for name, parts in columns.items()}
        counts = per_sample["final_tokens"]
        metrics = {
            "top1": 100.0 * float(np.mean(per_sample["correct"])),
            "images": float(len(counts)),
            "final_tokens_mean": float(np.mean(counts)),
            "final_tokens_sd": float(np.std(counts)),
        }
        return Evaluation(metrics, per_sample)
