"""Segmentation: mean IoU of an MLP head on the grids of four blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from mmengine.structures import PixelData
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tap.config.jobs import uses_endpoint
from tap.config.methods import RANDOM_ENCODER
from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.reducers.build import build_encoder
from tap.seeds import derive_seed
from tap.tasks.base import Batch, Evaluation, Sample, SplitName, Splits, Task
from tap.tasks.recovery import recovery_settings
from tap.tasks.segmentation.data import Collate, open_splits
from tap.tasks.segmentation.head import GridMLPHead
from tap.tasks.segmentation.inference import inference_settings, predict
from tap.tasks.segmentation.metrics import IoU, confusion_matrix
from tap.tasks.segmentation.mmseg_parts import SegDataSample
from tap.tasks.segmentation.model import SAMPLE_ID, Segmenter


class Segmentation(Task):
    """ADE20K at paper scale, microscopy tiles below it."""

    name = "seg"

    def datasets(self, spec: JobSpec) -> Splits:
        """Opens the prepared images and label maps."""
        return open_splits(spec)

    def collate(self, spec: JobSpec, train: bool) -> Callable[[Sequence[Sample]], Batch]:
        """Batches of crops, or of whole images of one size."""
        return Collate(train)

    def build_model(self, spec: JobSpec) -> Segmenter:
        """Encoder and MLP head; the head of a seed is the same for all methods.

        Raises:
            UserError: the settings name no block to read.
        """
        if not spec.model.read_blocks:
            raise UserError("model.read_blocks: names no block; the segmentation head reads the grid after 3, 6, 9, 12")
        encoder = build_encoder(spec, recovery_settings(spec))
        encoder.vit.norm = nn.Identity()  # for classifiers; the head has a norm of its own for each level
        if spec.variant == RANDOM_ENCODER:
            encoder.requires_grad_(False)
        with torch.random.fork_rng():
            torch.manual_seed(derive_seed(spec.seed, "head"))
            head = GridMLPHead(
                [encoder.vit.embed_dim] * len(encoder.read_blocks),
                spec.model.head_channels,
                num_classes=spec.data.num_classes,
                sync=torch.cuda.is_available(),
            )
        return Segmenter(encoder, head, inference_settings(spec.eval, spec.model))

    def loss(self, model: nn.Module, batch: Batch, progress: float) -> tuple[Tensor, dict[str, float]]:
        """Cross entropy over the pixels that are not void, and the share of them that is right."""
        samples = []
        for labels, number in zip(batch.targets, batch.sample_ids, strict=True):
            sample = SegDataSample(metainfo={SAMPLE_ID: number})
            sample.gt_sem_seg = PixelData(data=labels[None])
            samples.append(sample)
        losses: dict[str, Any] = model(batch.images, samples, mode="loss")
        # Left on the device: the loop reads it when it writes a row of the log.
        return losses["decode.loss_ce"], {"pixel_accuracy": losses["decode.acc_seg"].squeeze()}

    def evaluate(self, model: Any, spec: JobSpec, split: SplitName, device: torch.device) -> Evaluation:
        """Mean IoU in percent and the realised token counts, with the confusion matrix of every image."""
        model.eval()
        dataset, classes = self.datasets(spec).get(split), spec.data.num_classes
        if not len(dataset):
            raise UserError(f"{spec.data.root}: the {split} split has no image; check data.calibration and the limits")
        loader = DataLoader(
            dataset,
            spec.eval.batch_size,
            collate_fn=self.collate(spec, train=False),
            num_workers=spec.data.workers,
        )
        iou = IoU(classes)
        ids: list[Tensor] = []
        confusion: list[Tensor] = []
        tokens: list[float] = []
        for batch in loader:
            ids.append(batch.sample_ids)
            predictions = predict(model, batch.images.to(device), batch.sample_ids.to(device), batch.targets)
            for prediction, target in zip(predictions, batch.targets, strict=True):
                labels = target.labels.to(device).long()
                iou.add(prediction.labels, labels)
                confusion.append(confusion_matrix(prediction.labels, labels, classes).cpu())
                tokens.append(prediction.final_tokens)
        metrics = {
            **iou.metrics(),
            "images": float(len(tokens)),
            "final_tokens_mean": float(np.mean(tokens)),
            "final_tokens_sd": float(np.std(tokens)),
        }
        if uses_endpoint(spec):
            metrics["recovery_endpoint"] = float(model.encoder.recovery.scale)
        per_sample = {
            "sample_id": torch.cat(ids).numpy(),
            "confusion": torch.stack(confusion).numpy(),
            "final_tokens": np.array(tokens),
        }
        return Evaluation(metrics, per_sample)
