"""A large batch on a small card: the gradients of its micro-batches add up to those of the whole.

A *share* is what one pass sees: all of a process's images, or a micro-batch of them. Losses are means over images, so
the update is that of the whole batch where nothing is drawn and nothing is normalised over the batch (to rounding; a
test). Draws are those of the share, named by its place in the batch: with a stated number of images, the same whoever
computes it. The batch norm of the segmentation head sees a share, and what the detection heads' losses divide by (their
positive regions) is counted within one, as public code does both within a process.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tap.config.schema import TrainConfig
from tap.encoder.sparse_vit import SparseEncoder
from tap.tasks.base import Batch

OutOfMemory = torch.OutOfMemoryError
"""What torch raises where a card is full."""


def micro_batch_of(config: TrainConfig, images: int) -> int:
    """Images of a pass to begin with, for a process that has `images` of a batch."""
    return min(images, config.micro_batch) if isinstance(config.micro_batch, int) else images


def split_batch(batch: Batch, size: int) -> list[Batch]:
    """Consecutive parts of `size` images, the last one maybe smaller; the batch itself where it is one part."""
    count = len(batch.images)
    if count <= size:
        return [batch]
    return [Batch(*(_cut(part, first, first + size) for part in batch)) for first in range(0, count, size)]


def checkpoint_blocks(model: nn.Module) -> None:
    """Has every block of every encoder compute its activations again in the backward pass instead of keeping them."""
    for module in model.modules():
        if isinstance(module, SparseEncoder):
            for block in module.vit.blocks:
                block.grad_checkpointing = True


def weighted_sums(parts: list[tuple[float, dict[str, Any]]]) -> dict[str, Any]:
    """What the log shows of a step: the mean over its shares, each with its share of the images."""
    if len(parts) == 1:
        return parts[0][1]
    names = dict.fromkeys(name for _, extra in parts for name in extra)
    return {name: sum(weight * extra[name] for weight, extra in parts if name in extra) for name in names}


def _cut(value: Any, first: int, stop: int) -> Any:
    """Images from `first` up to `stop` of tensors, lists, and dicts of them; a seed of the whole batch as it is."""
    if isinstance(value, dict):
        return {key: _cut(part, first, stop) for key, part in value.items()}
    return value[first:stop] if isinstance(value, Tensor | list | tuple) else value
