"""Floating-point operations of an image's passes, by formulas (docs/plan.md), so that a plan needs no torch.

A product of an `(m, k)` and a `(k, n)` matrix is `2 m k n` operations; what is no matrix product or convolution is left
out. Tests compare every function with torch's counter on the models that the tasks build.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tap.config.detector import DetectorConfig
from tap.config.lookup import facts_of
from tap.config.methods import DENSE, PRETRAINING, RANDOM_ENCODER
from tap.config.model import ModelConfig
from tap.config.schema import JobSpec, PretrainConfig
from tap.plan.starts import RANDOM_ENCODERS
from tap.plan.teaching import has_teacher

TRAINED_ON_ALL_ROWS: Final = ("dynamicvit", "svit")
"""Methods that mask patches while they learn and remove them only afterwards."""

PASSES: Final = 3
"""A training step in forward passes: one, and twice as much backward."""

FROZEN_PASSES: Final = 2
"""The same where the weights are frozen: gradients of states alone are wanted (those of small updates are left out)."""

POSITIVE: Final = 0.25
"""Largest share of the sampled regions that hold an object, which are those that a mask head learns from."""


def patches(model: ModelConfig) -> int:
    """Patches of an image."""
    return (model.image_size // model.patch_size) ** 2


def rows(spec: JobSpec, training: bool = True, split: Sequence[float] | None = None) -> list[float]:
    """Tokens of an image in each block: all, less what the pruning blocks before it have removed.

    Every method is taken to remove K's complement at the controller's blocks in the shares of the static rule, which
    is near enough for hours; the methods' own counts are what an evaluation measures.

    Args:
        spec: the run.
        training: whether in training, where some methods mask and remove nothing.
        split: shares of the removal budget at the controller's blocks, to any sum; the static rule's if not given.
    """
    model = spec.model
    prefix = int(model.class_token) + int(spec.method in ("tap", "tap_f", "static"))
    all_rows = float(patches(model) + prefix)
    if spec.rate == 1.0 or (training and spec.method in TRAINED_ON_ALL_ROWS):
        return [all_rows] * model.depth
    budget = (1.0 - spec.rate) * patches(model)
    split = spec.static_split if split is None else split
    shares = dict(zip(spec.controller.layers, split, strict=True))
    counts, left = [], all_rows
    for block in range(1, model.depth + 1):
        counts.append(left)
        left -= budget * shares.get(block, 0.0) / sum(split)
    return counts


def block_flops(
    rows: float,
    dim: int,
    candidates: float | None = None,
    mlp_ratio: float = 4,
    keys: float | None = None,
    folded: float = 0,
    left: float | None = None,
) -> float:
    """Operations of a block on one image, two for each multiply-accumulate.

    Args:
        rows: tokens of the image that attend, prefix included.
        dim: token width d.
        candidates: tokens whose keys are projected, where some of them are removed before anything else is; all are
            `rows` if not given.
        mlp_ratio: hidden width of the MLP over d.
        keys: tokens that each row attends to; `rows` if not given, fewer in windows.
        folded: what relative position adds to the length of queries and keys, over all heads.
        left: tokens that go through the MLP, where some of them are removed behind the attention; `rows` if not given.
    """
    projected, seen = rows if candidates is None else candidates, rows if keys is None else keys
    linear = dim * dim * (projected + 3 * rows + 2 * mlp_ratio * (rows if left is None else left))
    return 2 * (linear + rows * seen * (2 * dim + folded))


def embedding_flops(patches: float, dim: int, pixels: int) -> float:
    """Operations of the patch embedding of one image; `pixels` are the values of one patch, channels included."""
    return 2 * patches * dim * pixels


def encoder_flops(model: ModelConfig, counts: Sequence[float]) -> float:
    """One pass of an image through patch embedding and blocks that see `counts` rows each."""
    embedding = embedding_flops(patches(model), model.width, model.channels * model.patch_size**2)
    return embedding + sum(flops_of_block(model, block, count) for block, count in enumerate(counts, start=1))


def flops_of_block(model: ModelConfig, block: int, count: float) -> float:
    """One pass of an image through a block, from 1, that sees `count` rows."""
    local = model.window is not None and block not in (model.global_blocks or ())
    side = model.window if local and model.window is not None else model.image_size // model.patch_size
    keys = min(count, float(side**2)) if local else count
    folded = 2.0 * model.heads * side if model.rel_pos else 0.0  # relative positions as longer queries and keys
    return block_flops(count, model.width, mlp_ratio=model.mlp_ratio, keys=keys, folded=folded)


def head_flops(spec: JobSpec, training: bool = True) -> float:
    """One pass of an image through the head of its task."""
    model, classes = spec.model, spec.data.num_classes
    if not facts_of(spec.task).dense:
        return 2.0 * model.width * classes
    if model.detector is None:
        return segmentation_head_flops(model, classes)
    return detection_head_flops(model, model.detector, classes, training)


def segmentation_head_flops(model: ModelConfig, classes: int) -> float:
    """One linear layer for each level, the fusing layer and the classifier, at every patch."""
    levels, channels = len(model.read_blocks), model.head_channels
    return 2.0 * patches(model) * channels * (levels * model.width + levels * channels + classes)


def pyramid_flops(model: ModelConfig, channels: int) -> float:
    """Simple feature pyramid: levels at 4, 2, 1 and 1/2 times the grid."""
    grid, width = patches(model), model.width
    total = 2.0 * 4 * grid * width * (width // 2) + 2.0 * 16 * grid * (width // 2) * (width // 4)  # up by 4
    total += 2.0 * 4 * grid * width * (width // 2)  # up by 2
    for size, inner in ((16.0, width // 4), (4.0, width // 2), (1.0, width), (0.25, width)):
        total += 2.0 * size * grid * channels * (inner + 9 * channels)
    return total


def proposal_flops(model: ModelConfig, detector: DetectorConfig) -> float:
    """Proposal head on the five levels: its convolutions, and 1 + 4 outputs for each of three anchors."""
    positions = patches(model) * (16 + 4 + 1 + 1 / 4 + 1 / 16)
    channels = detector.pyramid_channels
    return 2.0 * positions * channels * (9.0 * channels * detector.proposal_convs + 3 * 5)


def box_flops(detector: DetectorConfig, regions: float, classes: int) -> float:
    """One stage's box head on regions of 7 x 7."""
    hidden = detector.head_channels
    total, inner = 0.0, detector.pyramid_channels
    for _ in range(detector.box_convs):
        total, inner = total + 2.0 * 49 * 9 * inner * hidden, hidden
    return regions * (total + 2.0 * 49 * inner * detector.box_width + 2.0 * detector.box_width * (classes + 5))


def mask_flops(detector: DetectorConfig, regions: float, classes: int) -> float:
    """One stage's mask head on regions of 14 x 14, brought to 28 x 28."""
    hidden = detector.head_channels
    total, inner = 0.0, detector.pyramid_channels
    for _ in range(detector.mask_convs):
        total, inner = total + 2.0 * 196 * 9 * inner * hidden, hidden
    return regions * (total + 2.0 * 784 * inner * hidden + 2.0 * 784 * hidden * classes)


def detection_head_flops(model: ModelConfig, detector: DetectorConfig, classes: int, training: bool) -> float:
    """Pyramid, proposals and a cascade of three; in training on sampled regions, else on proposals and detections."""
    boxes = float(detector.box_samples if training else detector.proposals[1])
    masks = POSITIVE * detector.box_samples if training else float(detector.detections)
    cascade = 3.0 * (box_flops(detector, boxes, classes) + mask_flops(detector, masks, classes))
    return pyramid_flops(model, detector.pyramid_channels) + proposal_flops(model, detector) + cascade


def decoder_flops(model: ModelConfig, pretrain: PretrainConfig) -> float:
    """MAE's decoder: the map into it, its blocks on all patches and the class token, and the pixels of every patch."""
    width, count = pretrain.decoder_width, patches(model) + 1.0
    blocks = pretrain.decoder_depth * (24.0 * count * width**2 + 4.0 * count**2 * width)
    pixels = model.channels * model.patch_size**2
    seen = 1.0 + (1.0 - pretrain.mask_ratio) * patches(model)
    return blocks + 2.0 * width * (seen * model.width + count * pixels)


def forward_flops(spec: JobSpec) -> float:
    """One image at inference."""
    return encoder_flops(spec.model, rows(spec, training=False)) + head_flops(spec, training=False)


def training_flops(spec: JobSpec) -> float:
    """One image in a training step: its passes, and those of a teacher."""
    if spec.method == PRETRAINING:
        seen = 1.0 + (1.0 - spec.pretrain.mask_ratio) * patches(spec.model)
        encoder = encoder_flops(spec.model, [seen] * spec.model.depth)
        return PASSES * (encoder + decoder_flops(spec.model, spec.pretrain))
    encoder, head = encoder_flops(spec.model, rows(spec)), head_flops(spec)
    if spec.method == DENSE and spec.variant in (RANDOM_ENCODER, *RANDOM_ENCODERS):
        return encoder + PASSES * head  # a frozen encoder that nothing is learned before
    passes = FROZEN_PASSES if spec.method == "tap_f" else PASSES
    taught = encoder_flops(spec.model, [rows(spec)[0]] * spec.model.depth) + head if has_teacher(spec) else 0.0
    return passes * encoder + PASSES * head + taught
