"""What follows the encoder in detection."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from tap.config.strict import Strict


def _above_zero(counts: tuple[int, int]) -> tuple[int, int]:
    if min(counts) < 1:
        raise ValueError(f"must be whole numbers above 0, got {list(counts)}")
    return counts


_Counts = Annotated[tuple[int, int], AfterValidator(_above_zero)]


class DetectorConfig(Strict):
    """Pyramid, proposals and heads of Cascade Mask R-CNN; the defaults are those of the public ViTDet recipe."""

    pyramid_channels: int = Field(256, ge=1, description="channels of every level of the simple feature pyramid")
    anchor_scale: float = Field(8.0, gt=0, description="side of a square anchor over the stride of its level")
    proposal_convs: int = Field(2, ge=1, description="convolutions of the proposal head")
    proposal_samples: int = Field(256, ge=1, description="anchors per image in the proposal loss")
    proposals_before_nms: _Counts = Field(
        (2000, 1000), description="best anchors per level that non-maximum suppression sees, training and inference"
    )
    proposals: _Counts = Field((1000, 1000), description="proposals per image, training and inference")
    box_samples: int = Field(512, ge=1, description="proposals per image in the loss of a cascade stage")
    box_convs: int = Field(4, ge=0, description="convolutions of a box head")
    box_width: int = Field(1024, ge=1, description="width of the linear layer of a box head")
    mask_convs: int = Field(4, ge=1, description="convolutions of a mask head")
    head_channels: int = Field(256, ge=1, description="channels of the convolutions of the box and mask heads")
    detections: int = Field(100, ge=1, le=100, description="most detections per image")
    score_threshold: float = Field(0.05, ge=0, lt=1, description="detections that score less are dropped")
    ignore_overlap: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="anchors and proposals of which more lies in a crowd region are no negatives; "
        "null takes them as any other",
    )
