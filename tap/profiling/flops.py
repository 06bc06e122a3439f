"""Operations of a pass: counted from the rows that each block had, and as torch sees its matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.trace import Trace
from tap.plan.flops import block_flops, embedding_flops


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


def from_counts(encoder: SparseEncoder, trace: Trace, extra: int) -> float:
    """Operations of a plain encoder that prunes before a block's queries, from its realised counts (Alg. S1).

    Args:
        encoder: whose blocks attend globally.
        trace: what a pass decided.
        extra: tokens that the method adds to the prefix.
    """
    vit: Any = encoder.vit
    patches = trace.grid[0] * trace.grid[1]
    images, prefix = len(trace.final_counts), vit.num_prefix_tokens + extra
    total = images * embedding_flops(patches, vit.embed_dim, vit.patch_embed.proj.weight[0].numel())
    current = torch.full((images,), patches, dtype=torch.int64)
    for layer in range(1, len(vit.blocks) + 1):
        before = current
        if layer in trace.kept:
            current = trace.kept[layer].sum(dim=1).cpu()
        if encoder.read_blocks:  # matching of the removed to the kept, by all heads' keys
            total += int(2 * vit.embed_dim * ((before - current) * current).sum())
        total += sum(
            block_flops(int(after) + prefix, vit.embed_dim, int(candidates) + prefix)
            for after, candidates in zip(current, before, strict=True)
        )
    return total


def of_encoder(encoder: SparseEncoder, images: Tensor, ids: Tensor) -> int:
    """Operations of one pass of an encoder as torch sees them, outside of autocast."""
    with torch.inference_mode(), torch.autocast(images.device.type, enabled=False):
        return counted(lambda: encoder(images, ids))
