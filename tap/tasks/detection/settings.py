"""Cascade Mask R-CNN's configuration: MMDetection's own base file with ViTDet's changes and the sizes of a scale."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mmdet
from mmengine.config import Config, ConfigDict

from tap.config.detector import DetectorConfig
from tap.tasks.detection.pyramid import SCALES

_BASE = Path(mmdet.__file__).parent / ".mim/configs/_base_/models/cascade-mask-rcnn_r50_fpn.py"
_FINEST_ROI = 14
"""Side of a region over the stride of the finest level up to which that level is read: 56 pixels at stride 4."""


@dataclass(frozen=True)
class HeadSettings:
    """What MMDetection builds the heads from, with their training and test settings inside.

    Attributes:
        rpn_head: the proposal head.
        roi_head: the cascade of box heads and the mask heads.
        training_proposals: how proposals are chosen in training; `rpn_head` holds how they are at inference.
    """

    rpn_head: ConfigDict
    roi_head: ConfigDict
    training_proposals: ConfigDict


def head_settings(detector: DetectorConfig, num_classes: int, patch: int) -> HeadSettings:
    """Configurations of the heads.

    ViTDet's changes: convolutional box heads and LayerNorm in all heads, two convolutions before the proposals, anchors
    that reach over the border.

    Args:
        detector: sizes.
        num_classes: kinds of objects.
        patch: side of a patch in pixels, the stride of the grid.
    """
    base: Any = Config.fromfile(_BASE).model
    strides = [round(patch / scale) for scale in SCALES]
    norm = {"type": "ChannelLayerNorm"}
    channels = detector.pyramid_channels

    proposals = base.rpn_head
    proposals.update(in_channels=channels, feat_channels=channels, num_convs=detector.proposal_convs)
    proposals.anchor_generator.update(scales=[detector.anchor_scale], strides=[*strides, 2 * strides[-1]])

    cascade = base.roi_head
    for extractor in (cascade.bbox_roi_extractor, cascade.mask_roi_extractor):
        extractor.update(out_channels=channels, featmap_strides=strides, finest_scale=_FINEST_ROI * strides[0])
    for head in cascade.bbox_head:
        head.update(
            type="ConvFCBBoxHead",
            num_shared_convs=detector.box_convs,
            num_shared_fcs=1,
            in_channels=channels,
            conv_out_channels=detector.head_channels,
            fc_out_channels=detector.box_width,
            num_classes=num_classes,
            norm_cfg=norm,
        )
    cascade.mask_head.update(
        num_convs=detector.mask_convs,
        in_channels=channels,
        conv_out_channels=detector.head_channels,
        num_classes=num_classes,
        norm_cfg=norm,
    )

    train, test = base.train_cfg, base.test_cfg
    train.rpn.allowed_border = -1
    train.rpn.sampler.num = detector.proposal_samples
    for stage in train.rcnn:
        stage.sampler.num = detector.box_samples
    if detector.ignore_overlap is not None:
        for part in (train.rpn, *train.rcnn):
            part.assigner.ignore_iof_thr = detector.ignore_overlap
    for part, before, kept in zip(
        (train.rpn_proposal, test.rpn), detector.proposals_before_nms, detector.proposals, strict=True
    ):
        part.update(nms_pre=before, max_per_img=kept)
    test.rcnn.update(score_thr=detector.score_threshold, max_per_img=detector.detections)
    proposals.update(train_cfg=train.rpn, test_cfg=test.rpn)
    cascade.update(train_cfg=train.rcnn, test_cfg=test.rcnn)
    return HeadSettings(proposals, cascade, train.rpn_proposal)
