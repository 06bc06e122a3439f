"""Operations of a pass as torch sees its matrix products; `tap.profiling.method_flops` has them by formula."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.trace import Trace


def counted(run: Callable[[], object]) -> int:
    """Floating-point operations of all matrix products and convolutions of a pass, two for each multiply-accumulate.

    Through kernels whose products torch sees, in float32, so no pass to time.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            run()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return counter.get_total_flops()


def of_encoder(encoder: SparseEncoder, images: Tensor, ids: Tensor) -> tuple[int, Trace]:
    """Operations of one pass of an encoder as torch sees them, outside of autocast, and what that pass decided."""
    traces: list[Trace | None] = []
    with torch.inference_mode(), torch.autocast(images.device.type, enabled=False):
        flops = counted(lambda: traces.append(encoder(images, ids, return_trace=True).trace))
    assert traces[0] is not None
    return flops, traces[0]
