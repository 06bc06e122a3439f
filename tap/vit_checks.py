"""What a model under a method refuses, and which of its parameters no loss reaches."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from tap.config.methods import DENSE, TAP
from tap.errors import UserError


def check_images(images: Tensor, channels: int, reducer: Any) -> None:
    """Refuses input without a right result.

    Args:
        images: what the model was given; `(B, C, H, W)` is right.
        channels: image channels of the model.
        reducer: its method.

    Raises:
        UserError: other dimensions, bytes, other channels, values that are not there, a tracer at work, or an exporter
            where counts differ from image to image.
    """
    if torch.jit.is_tracing():
        refuse_torchscript()
    if images.ndim != 4:
        raise UserError(
            f"images: {images.ndim} dimensions {tuple(images.shape)}; give a batch (B, C, H, W), one image as "
            "image[None]"
        )
    if not images.is_floating_point():
        raise UserError(
            f"images: {images.dtype} holds no normalised pixels; divide by 255, then normalise with the mean and "
            "std of model.pretrained_cfg"
        )
    if images.shape[1] != channels:
        raise UserError(f"images: {images.shape[1]} channels, but the model takes {channels}")
    if images.is_meta and reducer.keep_rate < 1.0 and reducer.name != DENSE:
        raise UserError(
            f"images: on the meta device there are no values that '{reducer.name}' could rank; use a real device, or "
            "keep_rate=1"
        )
    if torch.compiler.is_exporting() and not has_fixed_counts(reducer):
        raise UserError(
            f"export: how many patches '{reducer.name}' keeps in a block depends on the image, and an exported graph "
            "has fixed sizes; give controller=ControllerConfig(schedule=...), or method='static'"
        )


def refuse_torchscript() -> NoReturn:
    """Says what to do instead.

    Raises:
        UserError: always.
    """
    raise UserError(
        "torch.jit: a model whose rows differ from image to image cannot be scripted or traced; run it as it is, or "
        "torch.export one with a fixed schedule (docs/library.md)"
    )


def has_fixed_counts(reducer: Any) -> bool:
    """Whether every block has a number of rows that is known before an image is seen."""
    if reducer.keep_rate == 1.0:
        return True
    return not reducer.method.calibrated and (reducer.name != TAP or _allocates_nothing(reducer))


def freeze_what_is_not_called(reducer: Any, dense: bool) -> None:
    """Parameters that no loss reaches take no gradient, so that DistributedDataParallel does not wait for them.

    Args:
        reducer: the method; only TAP has such parameters.
        dense: whether grids are read, with the recovery readout.
    """
    if reducer.name != TAP:
        return
    controller = reducer.controller
    unused: list[nn.Module] = []
    if reducer.keep_rate == 1.0:
        unused.append(controller)
    if not dense:
        unused.append(controller.recovery)
    if _allocates_nothing(reducer):
        unused.append(controller.allocation)
    for module in unused:
        module.requires_grad_(False)


def _allocates_nothing(reducer: Any) -> bool:
    """Whether TAP's allocation is given, by a schedule or by a single pruning block."""
    return reducer.settings.schedule is not None or len(reducer.settings.layers) == 1
