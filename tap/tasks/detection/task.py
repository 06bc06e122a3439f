"""Detection: box and mask AP of Cascade Mask R-CNN on the grid at the end of the encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from mmengine.structures import InstanceData
from torch import Tensor, nn

from tap.config.schema import JobSpec
from tap.encoder.trace import Trace
from tap.errors import UserError
from tap.plan.starts import has_random_encoder
from tap.reducers.build import build_encoder
from tap.seeds import derive_seed
from tap.task_facts import DET
from tap.tasks.base import Batch, Sample, Splits, seeded_rng, with_terms
from tap.tasks.detection.data import Collate, open_splits
from tap.tasks.detection.metrics import ap_scores, match
from tap.tasks.detection.mmdet_parts import DetDataSample, encode_mask_results
from tap.tasks.detection.model import METHOD, Detector
from tap.tasks.detection.settings import head_settings
from tap.tasks.pipeline import PerImage, Pipeline, token_counts
from tap.tasks.recovery_endpoint import recovery_settings
from tap.tasks.retention import INTERIOR, SMALL, Objects, final_kept, interior_counts, small_counts

_PARTS = {"proposal_loss": ("proposal_",), "box_loss": (".loss_cls", ".loss_bbox"), "mask_loss": (".loss_mask",)}
"""What the log shows: sums of the losses whose names hold one of these."""


class Detection(Pipeline):
    """COCO at paper scale, microscopy tiles below it."""

    facts = DET

    def datasets(self, spec: JobSpec) -> Splits:
        """Opens the prepared images and annotation files."""
        return open_splits(spec)

    def collate(self, spec: JobSpec, train: bool) -> Callable[[Sequence[Sample]], Batch]:
        """Batches of squares."""
        return Collate()

    def build_model(self, spec: JobSpec) -> Detector:
        """Encoder, pyramid and heads; the pyramid and the heads of a seed are the same for all methods.

        Raises:
            UserError: the settings do not say what follows the encoder, or read another block than the last.
        """
        if spec.model.detector is None:
            raise UserError("model.detector: is missing; detection needs the sizes of its pyramid and heads")
        encoder = build_encoder(spec, self.facts, recovery_settings(spec))
        if encoder.read_blocks != (len(encoder.vit.blocks),):
            raise UserError(
                f"model.read_blocks: is {list(encoder.read_blocks)}; detection reads the grid once, after the last "
                f"block: give [{len(encoder.vit.blocks)}]"
            )
        encoder.vit.norm = encoder.vit.fc_norm = nn.Identity()  # for classifiers; the pyramid has norms of its own
        if has_random_encoder(spec):
            encoder.requires_grad_(False)
        heads = head_settings(spec.model.detector, spec.data.num_classes, spec.model.patch_size)
        with torch.random.fork_rng():
            torch.manual_seed(derive_seed(spec.seed, "head"))
            return Detector(encoder, spec.model.detector.pyramid_channels, heads)

    def loss(self, model: Any, batch: Batch, progress: float) -> tuple[Tensor, dict[str, float]]:
        """Sum of the losses of proposals, boxes and masks of all stages, and what the method adds."""
        side = tuple(batch.images.shape[-2:])
        samples = [_sample(target, side) for target in batch.targets]
        losses: dict[str, Tensor] = model(batch.images, samples, batch.sample_ids)
        terms = {name.removeprefix(METHOD): value for name, value in losses.items() if name.startswith(METHOD)}
        losses = {name: value for name, value in losses.items() if "loss" in name and not name.startswith(METHOD)}
        # Left on the device: the loop reads them when it writes a row of the log.
        parts: dict[str, Any] = {
            part: sum(value.detach() for name, value in losses.items() if any(mark in name for mark in marks))
            for part, marks in _PARTS.items()
        }
        loss = torch.stack([value.sum() for value in losses.values()]).sum()
        loss, extra = with_terms(loss, terms, model.encoder.reducer.task_weight)
        return loss, parts | extra

    def evaluate_batch(self, model: Detector, spec: JobSpec, batch: Batch) -> dict[str, np.ndarray]:
        """The detections of every image and what they found, and the patches that reached the last block."""
        assert spec.model.detector is not None  # the model was built from it
        found = model.find(batch.images, [place.meta for place in batch.targets], batch.sample_ids)
        matched = match(
            [place.objects for place in batch.targets],
            [_detections(instances) for instances in found.instances],
            [place.meta["ori_shape"] for place in batch.targets],
            spec.data.num_classes,
            spec.model.detector.detections,
        )
        tokens = np.array(found.final_tokens)
        return {**batch.identity, "final_tokens": tokens, **matched}

    def retained(self, spec: JobSpec, batch: Batch, traces: Sequence[Trace]) -> dict[str, np.ndarray]:
        """Patches inside of boxes, and small objects; crowd regions are no objects."""
        (trace,) = traces
        kept, objects = final_kept(trace), [_objects(place) for place in batch.targets]
        where = trace.grid, (spec.model.patch_size, spec.model.patch_size)
        return {
            INTERIOR: interior_counts(objects, *where, kept),
            SMALL: small_counts(objects, *where, kept, spec.eval.small_side),
        }

    def losses_of_images(self, model: Detector, spec: JobSpec, batch: Batch) -> Tensor:
        """Classification and box losses of proposals and all stages, without masks (Sec. What the Register Learns).

        The proposals and boxes that they are taken over are drawn by the image's number alone.
        """
        samples = [_truth(place, batch.images.shape[-2:]) for place in batch.targets]
        maps, losses = model.maps(batch.images, batch.sample_ids), []
        for row, (sample, number) in enumerate(zip(samples, batch.sample_ids.tolist(), strict=True)):
            with seeded_rng(derive_seed(spec.seed, "image_losses", number)):
                losses.append(model.box_loss([level[row : row + 1] for level in maps], sample).double())
        return torch.stack(losses)

    def sufficient_statistics(self, per_image: PerImage) -> PerImage:
        """All but the boxes."""
        return {name: values for name, values in per_image.items() if name != "boxes"}

    def score(self, spec: JobSpec, statistics: PerImage) -> dict[str, float]:
        """Box and mask AP in percent and the realised token counts."""
        return {**ap_scores(statistics), **token_counts(statistics)}


def _sample(target: dict[str, Any], side: tuple[int, ...]) -> DetDataSample:
    """A training image's objects as MMDetection takes them."""
    sample = DetDataSample(metainfo={"img_shape": target["shape"], "pad_shape": side, "batch_input_shape": side})
    sample.gt_instances = InstanceData(bboxes=target["boxes"], labels=target["labels"])
    if target["masks"] is not None:
        sample.gt_instances.masks = target["masks"]
    sample.ignored_instances = InstanceData(bboxes=target["crowds"])
    return sample


def _boxes(place: Any) -> tuple[Tensor, Tensor]:
    """Boxes of an evaluation image on its resized pixels `(n, 4)`, and which of them are crowd regions `(n,)`."""
    across, down = place.meta["scale_factor"]
    boxes = torch.tensor([one["bbox"] for one in place.objects]).reshape(-1, 4)
    boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], dim=1) * torch.tensor([across, down] * 2)
    return boxes, torch.tensor([bool(one.get("iscrowd")) for one in place.objects], dtype=torch.bool)


def _objects(place: Any) -> Objects:
    """The objects of an evaluation image whose retention is counted."""
    boxes, crowd = _boxes(place)
    areas = np.array([one["area"] for one in place.objects], dtype=np.float64)
    return Objects(boxes[~crowd].double().numpy(), areas[~crowd.numpy()])


def _truth(place: Any, side: Sequence[int]) -> DetDataSample:
    """The objects of an evaluation image on its resized pixels, without masks; crowd regions are ignored."""
    boxes, crowd = _boxes(place)
    labels = torch.tensor([one["category_id"] for one in place.objects], dtype=torch.int64)
    target = {
        "shape": place.meta["img_shape"],
        "boxes": boxes[~crowd],
        "labels": labels[~crowd],
        "crowds": boxes[crowd],
    }
    return _sample(target | {"masks": None}, tuple(side))


def _detections(instances: Any) -> dict[str, Any]:
    """The model's instances of one image on the CPU, masks as run-length codes."""
    arrays = {name: instances[name].float().cpu().numpy() for name in ("bboxes", "scores", "labels")}
    return arrays | {"masks": encode_mask_results(instances.masks.cpu().numpy())}
