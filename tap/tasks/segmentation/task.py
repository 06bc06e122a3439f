"""Segmentation: mean IoU of an MLP head on the grids of four blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.structures import PixelData
from torch import Tensor, nn

from tap.config.schema import JobSpec
from tap.encoder.trace import Trace
from tap.errors import UserError
from tap.plan.starts import has_random_encoder
from tap.reducers.base import IGNORE
from tap.reducers.build import build_encoder
from tap.seeds import derive_seed
from tap.task_facts import SEG
from tap.tasks.base import Batch, Sample, Splits, with_terms
from tap.tasks.pipeline import PerImage, Pipeline, token_counts
from tap.tasks.recovery_endpoint import recovery_settings
from tap.tasks.retention import BOUNDARY, CLASSES, boundary_counts, class_counts, final_kept
from tap.tasks.segmentation.data import Collate, Target, open_splits
from tap.tasks.segmentation.head import GridMLPHead
from tap.tasks.segmentation.inference import inference_settings, pixel_logits, predict, windows
from tap.tasks.segmentation.metrics import class_areas, confusion_matrix, iou_scores
from tap.tasks.segmentation.mmseg_parts import SegDataSample
from tap.tasks.segmentation.model import METHOD, SAMPLE_ID, Segmenter


class Segmentation(Pipeline):
    """ADE20K at paper scale, microscopy tiles below it."""

    facts = SEG

    def datasets(self, spec: JobSpec) -> Splits:
        """Opens the prepared images and label maps."""
        return open_splits(spec)

    def collate(self, spec: JobSpec, train: bool) -> Callable[[Sequence[Sample]], Batch]:
        """Batches of crops, or of whole images of one size."""
        return Collate(train)

    def encoder_inputs(self, spec: JobSpec, images: Tensor) -> Sequence[Tensor]:
        """The sliding windows of evaluation images, where the settings ask for them."""
        return windows(images, inference_settings(spec.eval, spec.model))

    def build_model(self, spec: JobSpec) -> Segmenter:
        """Encoder and MLP head; the head of a seed is the same for all methods.

        Raises:
            UserError: the settings name no block to read.
        """
        if not spec.model.read_blocks:
            raise UserError("model.read_blocks: names no block; the segmentation head reads the grid after 3, 6, 9, 12")
        encoder = build_encoder(spec, self.facts, recovery_settings(spec))
        encoder.vit.norm = nn.Identity()  # for classifiers; the head has a norm of its own for each level
        if has_random_encoder(spec):
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

    def loss(self, model: Any, batch: Batch, progress: float) -> tuple[Tensor, dict[str, float]]:
        """Cross entropy over the pixels that are not void, and the share of them that is right."""
        samples = []
        for labels, number in zip(batch.targets, batch.sample_ids, strict=True):
            sample = SegDataSample(metainfo={SAMPLE_ID: number})
            sample.gt_sem_seg = PixelData(data=labels[None])
            samples.append(sample)
        losses: dict[str, Any] = model(batch.images, samples, mode="loss")
        terms = {name.removeprefix(f"{METHOD}."): loss for name, loss in losses.items() if name.startswith(METHOD)}
        loss, extra = with_terms(losses["decode.loss_ce"], terms, model.encoder.reducer.task_weight)
        # Left on the device: the loop reads it when it writes a row of the log.
        return loss, {"pixel_accuracy": losses["decode.acc_seg"].squeeze(), **extra}

    def evaluate_batch(self, model: Segmenter, spec: JobSpec, batch: Batch) -> dict[str, np.ndarray]:
        """Confusion matrix of every image, and the patches that reached the last block (the mean over windows)."""
        predictions = predict(model, batch.images, batch.sample_ids, batch.targets)
        labels = [target.labels.to(batch.images.device).long() for target in batch.targets]
        classes = spec.data.num_classes
        confusion = [
            confusion_matrix(prediction.labels, label, classes)
            for prediction, label in zip(predictions, labels, strict=True)
        ]
        return {
            **batch.identity,
            "confusion": torch.stack(confusion).cpu().numpy(),
            "final_tokens": np.array([prediction.final_tokens for prediction in predictions]),
        }

    def retained(self, spec: JobSpec, batch: Batch, traces: Sequence[Trace]) -> dict[str, np.ndarray]:
        """Boundary patches and classes, summed over the windows of an image; void and padding have no class."""
        labels = torch.stack([_seen(target, batch.images.shape[-2:]) for target in batch.targets])
        side, found = spec.model.patch_size, []
        for part, trace in zip(self.encoder_inputs(spec, labels), traces, strict=True):
            padded = F.pad(part, (0, -part.shape[-1] % side, 0, -part.shape[-2] % side), value=IGNORE)
            seen = padded, trace.grid, final_kept(trace)
            found.append((boundary_counts(*seen), class_counts(*seen, spec.data.num_classes)))
        boundary, classes = (np.sum(counts, axis=0) for counts in zip(*found, strict=True))
        return {BOUNDARY: boundary, CLASSES: classes}

    def losses_of_images(self, model: Segmenter, spec: JobSpec, batch: Batch) -> Tensor:
        """Mean cross entropy over the pixels that are not void; 0 for an image without any."""
        logits = pixel_logits(model, batch.images, batch.sample_ids, batch.targets)
        return torch.stack([_pixel_loss(one, target.labels) for one, target in zip(logits, batch.targets, strict=True)])

    def sufficient_statistics(self, per_image: PerImage) -> PerImage:
        """Three numbers per class instead of a confusion matrix."""
        rest = {name: values for name, values in per_image.items() if name != "confusion"}
        return rest | {"areas": class_areas(per_image["confusion"])}

    def score(self, spec: JobSpec, statistics: PerImage) -> dict[str, float]:
        """Mean IoU in percent and the realised token counts."""
        return {**iou_scores(statistics["areas"].sum(axis=0)), **token_counts(statistics)}


def _seen(target: Target, side: Sequence[int]) -> Tensor:
    """The label map `(H, W)` on the pixels of the resized and padded image; the nearest label, void on the padding."""
    height, width = target.size
    resized = F.interpolate(target.labels[None, None].float().cpu(), (height, width), mode="nearest-exact")[0, 0]
    return F.pad(resized.long(), (0, side[1] - width, 0, side[0] - height), value=IGNORE)


def _pixel_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of `(C, H, W)` logits over the labelled pixels."""
    truth = labels.to(logits.device).long()
    total = F.cross_entropy(logits[None].double(), truth[None], ignore_index=IGNORE, reduction="sum")
    return total / (truth != IGNORE).sum().clamp(min=1)
