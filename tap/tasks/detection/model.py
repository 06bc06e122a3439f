"""Detector: an encoder, the simple feature pyramid on its one grid, and MMDetection's Cascade Mask R-CNN heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from mmengine.structures import InstanceData
from torch import Tensor, nn

from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.reducers.base import TrainingPass
from tap.tasks.detection.mmdet_parts import MODELS, DetDataSample
from tap.tasks.detection.pyramid import SimpleFeaturePyramid
from tap.tasks.detection.settings import HeadSettings
from tap.tasks.openmmlab import named_in, quiet_initialisation
from tap.tasks.patch_targets import classes_of_boxes

METHOD = "method_"
"""What the names of a method's own loss terms begin with."""


@dataclass(frozen=True)
class Found:
    """What the detector says of a batch.

    Attributes:
        instances: of each image, MMDetection's `bboxes` `(n, 4)`, `scores` `(n,)`, `labels` `(n,)` and `masks`
            `(n, H, W)`, best first.
        final_tokens: patches of each image that reach the last block.
    """

    instances: list[Any]
    final_tokens: tuple[int, ...]


class Detector(nn.Module):
    """Reads the recovered grid after the last block once.

    Args:
        encoder: encoder whose one read block is the last.
        channels: channels of the pyramid.
        heads: what the heads are built from.
    """

    def __init__(self, encoder: SparseEncoder, channels: int, heads: HeadSettings) -> None:
        super().__init__()
        self.encoder = encoder
        self.pyramid = SimpleFeaturePyramid(encoder.vit.embed_dim, channels)
        self._training_proposals = heads.training_proposals
        with named_in("mmdet"), quiet_initialisation():
            self.rpn_head: Any = MODELS.build(heads.rpn_head)
            self.roi_head: Any = MODELS.build(heads.roi_head)
            self.rpn_head.init_weights()
            self.roi_head.init_weights()

    def forward(
        self, images: Tensor, samples: Sequence[DetDataSample], sample_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Losses of a training batch, by MMDetection's names, and the terms of the method, whose names begin `method_`.

        Args:
            images: `(B, C, H, W)`, sides multiples of the patch.
            samples: objects of each image.
            sample_ids: `(B,)` int64, key of stateless random draws; optional.
        """
        output = self.encoder(images, sample_ids)
        maps = self._maps(output)
        proposed, proposals = self.rpn_head.loss_and_predict(
            maps, [_without_classes(sample) for sample in samples], proposal_cfg=self._training_proposals
        )
        losses = {f"proposal_{name}": value for name, value in proposed.items()}
        losses |= self.roi_head.loss(maps, proposals, samples)
        losses = {name: sum(value) if isinstance(value, list) else value for name, value in losses.items()}
        given = TrainingPass(self.encoder, output, patch_targets=self._patch_targets(output, samples))
        return losses | {f"{METHOD}{name}": value for name, value in self.encoder.reducer.losses(given).items()}

    def find(
        self,
        images: Tensor,
        metas: Sequence[dict[str, Any]],
        sample_ids: Tensor | None = None,
        rescale: bool = True,
    ) -> Found:
        """Objects of a batch.

        Args:
            images: `(B, C, H, W)`.
            metas: of each image `img_shape` (without padding), and to rescale `ori_shape` and `scale_factor`.
            sample_ids: `(B,)` int64; optional.
            rescale: whether boxes and masks are those of the original image; else of the image as given.
        """
        output = self.encoder(images, sample_ids)
        maps = self._maps(output)
        samples = [DetDataSample(metainfo=meta) for meta in metas]
        proposals = self.rpn_head.predict(maps, samples, rescale=False)
        return Found(self.roi_head.predict(maps, proposals, samples, rescale=rescale), output.final_counts)

    def maps(self, images: Tensor, sample_ids: Tensor | None = None) -> tuple[Tensor, ...]:
        """The pyramid's levels `(B, c, h, w)` of images `(B, C, H, W)`."""
        return self._maps(self.encoder(images, sample_ids))

    def box_loss(self, maps: Sequence[Tensor], sample: DetDataSample) -> Tensor:
        """Classification and box losses of one image, of the proposals and of all stages; a scalar.

        Args:
            maps: the image's levels `(1, c, h, w)`.
            sample: its objects; masks are not read.
        """
        sample = sample.to(maps[0].device)
        proposed, proposals = self.rpn_head.loss_and_predict(
            maps, [_without_classes(sample)], proposal_cfg=self._training_proposals
        )
        masks = self.roi_head.mask_head
        self.roi_head.mask_head = None
        try:
            losses = proposed | self.roi_head.loss(maps, proposals, [sample])
        finally:
            self.roi_head.mask_head = masks
        terms = [value for name, value in losses.items() if "loss" in name]
        return torch.stack(
            [part.sum() for term in terms for part in (term if isinstance(term, list) else [term])]
        ).sum()

    def infer(self, images: Tensor, sample_ids: Tensor | None = None) -> list[Any]:
        """The full model in one pass: boxes, scores, classes and masks of images `(B, C, H, W)`."""
        shape = tuple(images.shape[-2:])
        meta = {"img_shape": shape, "ori_shape": shape, "scale_factor": (1.0, 1.0)}
        return self.find(images, [meta] * len(images), sample_ids, rescale=False).instances

    def _maps(self, output: EncoderOutput) -> tuple[Tensor, ...]:
        """The pyramid on the one grid."""
        (grid,) = output.grids
        return self.pyramid(grid.transpose(1, 2).unflatten(2, output.size))

    def _patch_targets(self, output: EncoderOutput, samples: Sequence[DetDataSample]) -> Tensor | None:
        """The class of every patch, for methods that ask; the background's number is the number of classes."""
        if not self.encoder.reducer.wants_patch_targets:
            return None
        boxes, labels = zip(*((one.gt_instances.bboxes, one.gt_instances.labels) for one in samples), strict=True)
        background = self.roi_head.bbox_head[0].num_classes
        return classes_of_boxes(boxes, labels, output.size, self.encoder.vit.patch_embed.patch_size, background)


def _without_classes(sample: DetDataSample) -> DetDataSample:
    """The same objects, all of one class: a proposal is an object or none."""
    objects = sample.gt_instances
    copy = DetDataSample(metainfo=sample.metainfo)
    copy.gt_instances = InstanceData(bboxes=objects.bboxes, labels=torch.zeros_like(objects.labels))
    copy.ignored_instances = sample.ignored_instances
    return copy
