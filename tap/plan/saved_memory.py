"""Memory of a training: what a step keeps for its backward pass, weights and optimizer (docs/plan.md)."""

from __future__ import annotations

from typing import Final

from tap.config.methods import PRETRAINING
from tap.config.model import ModelConfig
from tap.config.schema import JobSpec
from tap.plan.flops import patches, rows

MASKED_SCORES: Final = ("dynamicvit",)
"""Methods whose training masks the softmax itself, so that no fused kernel takes it."""

MASKED_SCORE_BYTES: Final = 20.0
"""Bytes kept for a score of theirs."""

SCORE_BYTES: Final = 2.0
"""Bytes kept for a score where a kernel without fusion keeps the attention (relative positions)."""

HEAD_BYTES: Final = 5.3
"""Bytes kept for each value that a convolution of the detection heads puts out."""

PARAMETER_BYTES: Final = 16
"""Weight, gradient and Adam's two moments, each in fp32."""


def block_bytes(model: ModelConfig, precision: str) -> float:
    """What one block keeps for a row: inputs of its norms and of its four linear layers, queries, keys and values.

    Under bf16 autocast the residual stream stays fp32: twice 4 d bytes. The rest is at the precision: 2 d for what the
    norms put out, 3 d for queries, keys and values, d for what attention gives, and the MLP's hidden layer before and
    after GELU.
    """
    size = 2.0 if precision == "bf16" else 4.0
    return model.width * (8.0 + size * (2.0 + 3.0 + 1.0 + 2.0 * model.mlp_ratio))


def saved_bytes(spec: JobSpec) -> float:
    """Bytes that one image's pass keeps for backward; of its blocks only what goes in, and one whole, where they are
    computed again (`train.checkpointing`).
    """
    model = spec.model
    counts = rows(spec)
    if spec.method == PRETRAINING:
        counts = [1.0 + (1.0 - spec.pretrain.mask_ratio) * patches(model)] * model.depth
    kept = [count * block_bytes(model, spec.train.precision) for count in counts]
    first = min(spec.controller.layers)
    for block, count in enumerate(counts, start=1):
        if spec.method in MASKED_SCORES and spec.rate < 1.0 and block > first:
            kept[block - 1] += MASKED_SCORE_BYTES * model.heads * count**2
        elif model.rel_pos and (model.window is None or block in (model.global_blocks or ())):
            kept[block - 1] += SCORE_BYTES * model.heads * count**2
    total = sum(counts) * 4.0 * model.width + max(kept) if spec.train.checkpointing else sum(kept)
    return total + head_values(model) * HEAD_BYTES


def head_values(model: ModelConfig) -> float:
    """Values that the convolutions of the detection heads put out for an image; other heads are small."""
    detector = model.detector
    if detector is None:
        return 0.0
    grid, width, channels = patches(model), model.width, detector.pyramid_channels
    pyramid = grid * (4 * (width // 2) + 16 * (width // 4) + 4 * (width // 2) + 2 * channels * (16 + 4 + 1 + 0.25))
    proposals = grid * (16 + 4 + 1 + 0.25 + 0.0625) * channels * detector.proposal_convs
    boxes = 3 * detector.box_samples * 49 * detector.head_channels * (1 + detector.box_convs)
    masks = 3 * 0.25 * detector.box_samples * detector.head_channels * (196 * (1 + detector.mask_convs) + 784)
    return pyramid + proposals + boxes + masks


def parameters(model: ModelConfig) -> float:
    """Weights of the encoder, and of the detection heads where there are some; within a few percent."""
    total = model.depth * model.width**2 * (4.0 + 2.0 * model.mlp_ratio) + patches(model) * model.width
    detector = model.detector
    if detector is not None:
        flat = 49.0 * detector.head_channels * detector.box_width
        convs = 9.0 * detector.head_channels**2 * (detector.box_convs + detector.mask_convs)
        total += 3.0 * (flat + convs) + 2.0 * model.width**2
    return total


def training_bytes(spec: JobSpec, processes: int = 1) -> float:
    """GPU memory of one process of a training that passes its whole share of a batch at once, or a stated part of it.

    Weights, gradients and optimizer are counted as well.
    """
    images = -(-spec.train.batch_size // processes)
    if isinstance(spec.train.micro_batch, int):
        images = min(images, spec.train.micro_batch)
    return images * saved_bytes(spec) + PARAMETER_BYTES * parameters(spec.model)


def least_bytes(spec: JobSpec, processes: int = 1) -> float:
    """The least GPU memory that a training gets by with: one image at once where that is left to the card."""
    if spec.train.micro_batch != "auto":
        return training_bytes(spec, processes)
    return saved_bytes(spec) + PARAMETER_BYTES * parameters(spec.model)
