"""The segmenter: sparse encoder and head as one of MMSegmentation's encoder-decoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from mmengine.config import ConfigDict
from mmengine.registry import MODELS
from torch import Tensor

from tap.encoder.sparse_vit import EncoderOutput, SparseEncoder
from tap.reducers.base import TrainingPass
from tap.tasks.patch_targets import classes_of_label_maps
from tap.tasks.segmentation.head import GridMLPHead
from tap.tasks.segmentation.mmseg_parts import BaseSegmentor, EncoderDecoder, SegDataSample, add_prefix

SAMPLE_ID, FINAL_TOKENS = "sample_id", "final_tokens"
"""Meta information of an image: the key of its stateless draws, and where token counts are collected."""

METHOD = "method"
"""What the names of a method's own loss terms begin with."""


@MODELS.register_module()
class Segmenter(EncoderDecoder):
    """Sparse encoder in the place of the backbone; loss, whole and sliding inference are MMSegmentation's.

    The number of an image within its data set travels in its meta information as `sample_id`.

    Args:
        encoder: encoder whose read blocks are the head's levels.
        decode_head: the head, or its configuration.
        test_cfg: `mode` (`whole` or `slide`), and for sliding windows `crop_size` and `stride`.
    """

    def __init__(
        self, encoder: SparseEncoder, decode_head: GridMLPHead | dict[str, Any], test_cfg: dict[str, Any] | None = None
    ) -> None:
        BaseSegmentor.__init__(self)  # not EncoderDecoder's, which would build a backbone under a name of its own
        self.encoder = encoder
        self._init_decode_head(decode_head)
        self.train_cfg = None
        self.test_cfg = ConfigDict(test_cfg or {"mode": "whole"})

    def _init_decode_head(self, decode_head: GridMLPHead | dict[str, Any]) -> None:
        if isinstance(decode_head, dict):
            super()._init_decode_head(ConfigDict(decode_head))
            return
        self.decode_head = decode_head
        self.align_corners, self.out_channels = decode_head.align_corners, decode_head.out_channels
        self.num_classes = decode_head.num_classes

    def extract_feat(self, inputs: Tensor, sample_ids: Tensor | None = None) -> tuple[Tensor, ...]:
        """The complete grid after every read block, as maps `(B, d, h, w)`.

        Args:
            inputs: `(B, C, H, W)`, sides multiples of the patch.
            sample_ids: `(B,)` int64, key of stateless random draws; optional.
        """
        return _maps(self.encoder(inputs, sample_ids))

    def loss(self, inputs: Tensor, data_samples: Sequence[SegDataSample]) -> dict[str, Tensor]:
        """Losses and pixel accuracy of a training batch, by MMSegmentation's names, and the terms of the method."""
        output = self.encoder(inputs, _ids([sample.metainfo for sample in data_samples]))
        logits = self.encoder.reducer.dense_logits(self.decode_head(_maps(output)), output)
        losses = add_prefix(self.decode_head.loss_by_feat(logits, data_samples), "decode")
        classes = None
        if self.encoder.reducer.wants_patch_targets:
            labels = torch.stack([sample.gt_sem_seg.data.squeeze(0) for sample in data_samples])
            classes = classes_of_label_maps(labels, output.size, self.num_classes)
        given = TrainingPass(self.encoder, output, logits, patch_targets=classes)
        return losses | add_prefix(self.encoder.reducer.losses(given), METHOD)

    def encode_decode(self, inputs: Tensor, batch_img_metas: list[dict[str, Any]]) -> Tensor:
        """Logits of one pass, at the size of the input; what sliding inference calls for each window.

        Args:
            inputs: `(B, C, H, W)` of any size; bottom and right are padded with zeros (the mean colour) to the patch.
            batch_img_metas: may hold `sample_id`; the patches that reach the last block are appended to `final_tokens`.

        Returns:
            `(B, num_classes, H, W)`.
        """
        logits, counts = self._run(inputs, _ids(batch_img_metas))
        for meta, count in zip(batch_img_metas, counts, strict=True):
            meta.setdefault(FINAL_TOKENS, []).append(count)
        return logits

    def infer(self, images: Tensor, sample_ids: Tensor | None = None) -> Tensor:
        """The full model in one pass: logits `(B, num_classes, H, W)` of images `(B, C, H, W)`."""
        return self._run(images, sample_ids)[0]

    def _run(self, images: Tensor, sample_ids: Tensor | None) -> tuple[Tensor, tuple[int, ...]]:
        height, width = images.shape[-2:]
        down, across = self.encoder.vit.patch_embed.patch_size
        images = F.pad(images, (0, -width % across, 0, -height % down))
        output = self.encoder(images, sample_ids)
        logits = self.encoder.reducer.dense_logits(self.decode_head(_maps(output)), output)
        logits = self.decode_head.predict_by_feat(logits, [{"img_shape": images.shape[-2:]}])
        return logits[..., :height, :width], output.final_counts


def _maps(output: EncoderOutput) -> tuple[Tensor, ...]:
    return tuple(grid.transpose(1, 2).unflatten(2, output.size) for grid in output.grids)


def _ids(metas: Sequence[dict[str, Any]]) -> Tensor | None:
    ids = [meta.get(SAMPLE_ID) for meta in metas]
    return None if None in ids else torch.stack([torch.as_tensor(number) for number in ids])
