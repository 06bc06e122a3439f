"""Throughput of a method beside the dense encoder, without and with its head: same kernel, same process, in turn.

One timing of each side follows the other, so that a slow moment of the machine meets both; medians are compared.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tap.encoder.attention import kernel_name
from tap.encoder.sparse_vit import SparseEncoder
from tap.reducers.base import ReducerSettings
from tap.reducers.dense import Dense


@dataclass(frozen=True)
class Timing:
    """Seconds per batch of two functions, measured in turn.

    Attributes:
        reference: median seconds of the reference side.
        subject: median seconds of the other side.
        ratio: median over pairs of reference / subject: above 1 the subject is faster.
    """

    reference: float
    subject: float
    ratio: float


def alternate(
    reference: Callable[[], object],
    subject: Callable[[], object],
    device: torch.device,
    warmup: int,
    iterations: int,
) -> Timing:
    """Times two functions in turn, with synchronisation before and after every measured call.

    Args:
        reference, subject: what to run.
        device: which device has to finish before the clock is read.
        warmup: calls of each side that are not measured.
        iterations: measured calls of each side.
    """

    def seconds(call: Callable[[], object]) -> float:
        _synchronise(device)
        start = time.perf_counter()
        call()
        _synchronise(device)
        return time.perf_counter() - start

    for _ in range(warmup):
        reference()
        subject()
    pairs = [(seconds(reference), seconds(subject)) for _ in range(iterations)]
    return Timing(
        statistics.median(first for first, _ in pairs),
        statistics.median(second for _, second in pairs),
        statistics.median(first / second for first, second in pairs),
    )


def dense_twin(encoder: SparseEncoder) -> SparseEncoder:
    """An encoder with the same backbone (shared, not copied) that removes nothing."""
    vit = encoder.vit
    settings = ReducerSettings(width=vit.embed_dim, depth=len(vit.blocks), layers=(len(vit.blocks),))
    return SparseEncoder(vit, Dense(settings), encoder.read_blocks).to(next(vit.parameters()).device)


def dense_model(model: nn.Module) -> nn.Module:
    """The same head (shared, not copied) on the dense twin of the model's encoder."""
    twin = copy.copy(model)
    twin._modules = dict(model._modules)  # a shallow copy would share the table of submodules
    twin.encoder = dense_twin(model.encoder)
    return twin


def precision(device: torch.device, dtype: str) -> AbstractContextManager[object]:
    """The inference path of a profile: bf16 autocast, or plain fp32."""
    return torch.autocast(device.type, torch.bfloat16) if dtype == "bf16" else nullcontext()


def kernel_of(encoder: SparseEncoder, device: torch.device, dtype: str) -> str:
    """What both sides of a profile attend with, for its record."""
    folded = any(getattr(block.attn, "tables", None) is not None for block in encoder.vit.blocks)
    if folded and device.type == "cpu":  # queries are longer than values, which the fused CPU kernel does not take
        return "matmul, softmax, matmul by query rows (relative position folded in)"
    return kernel_name(device, torch.bfloat16 if dtype == "bf16" else torch.float32)


def profile_encoder(
    encoder: SparseEncoder, images: Tensor, sample_ids: Tensor, warmup: int, iterations: int, dtype: str
) -> dict[str, float | int | str]:
    """Encoder throughput and its ratio to the dense encoder (Sec. Profiling protocol).

    For a dense head the time includes matching, packing and reconstruction at every read point.

    Args:
        encoder: the method's encoder, in evaluation mode.
        images: `(B, C, H, W)` on the encoder's device; real images, since counts depend on them.
        sample_ids: `(B,)` int64.
        warmup: unmeasured iterations of each side.
        iterations: measured iterations of each side.
        dtype: `fp32` or `bf16`.

    Returns:
        Keys as in `metrics.json`: images per second of both sides, `encoder_speedup`, kernel, dtype and batch size.
    """
    device = images.device
    twin = dense_twin(encoder).eval()
    with torch.inference_mode(), precision(device, dtype):
        timing = alternate(
            lambda: twin(images), lambda: encoder(images, sample_ids), device, warmup=warmup, iterations=iterations
        )
    return {
        "encoder_images_per_second": len(images) / timing.subject,
        "encoder_dense_images_per_second": len(images) / timing.reference,
        "encoder_speedup": timing.ratio,
        "kernel": kernel_of(encoder, device, dtype),
        "dtype": dtype,
        "batch_size": len(images),
        "threads": torch.get_num_threads() if device.type == "cpu" else 0,
    }


def profile_model(
    model: Any, images: Tensor, sample_ids: Tensor, warmup: int, iterations: int, dtype: str
) -> dict[str, float]:
    """Throughput of encoder and head together, and its ratio to the same head on the dense encoder.

    Args:
        model: in evaluation mode, with `encoder` and `infer(images, sample_ids)`, which does all that the task needs of
            one pass.
        images, sample_ids, warmup, iterations, dtype: as for `profile_encoder`.

    Returns:
        Keys as in `metrics.json`: images per second of both sides and `full_speedup`.
    """
    device = images.device
    twin: Any = dense_model(model).eval()
    with torch.inference_mode(), precision(device, dtype):
        timing = alternate(
            lambda: twin.infer(images, sample_ids),
            lambda: model.infer(images, sample_ids),
            device,
            warmup=warmup,
            iterations=iterations,
        )
    return {
        "full_images_per_second": len(images) / timing.subject,
        "full_dense_images_per_second": len(images) / timing.reference,
        "full_speedup": timing.ratio,
    }


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
