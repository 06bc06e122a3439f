"""Memory that a pass needs on top of what was there before, as torch's own allocators count it (Sec. Peak memory)."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from tap.encoder.sparse_vit import SparseEncoder
from tap.reducers.base import Reducer, ReducerSettings


def peak_bytes(call: Callable[[], object], device: torch.device) -> int:
    """Most bytes that a call holds at once, without what was allocated before it.

    On a GPU the counter of the caching allocator tells, on a CPU the allocations that torch's profiler sees. Neither is
    the size of the process, in which a freed block may stay.

    Args:
        call: what to run; run it once before, so that nothing is made lazily here.
        device: where it allocates.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it says that there is no GPU, every time
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    results = profiler.profiler.kineto_results  # type: ignore[union-attr]  # what the trace file is written from
    changes = sorted((event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]")
    held = peak = 0
    for _, size in changes:
        held += size
        peak = max(peak, held)
    return peak


def weight_bytes(module: nn.Module) -> int:
    """Bytes of a module's parameters and buffers, each counted once."""
    tensors = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def lean_twin(encoder: SparseEncoder) -> SparseEncoder:
    """The dense encoder in the pieces that a pruned one is made of, which need less memory than timm's own block.

    What a pruned encoder needs less than this one is due to the patches that it has removed.
    """
    vit = encoder.vit
    settings = ReducerSettings(width=vit.embed_dim, depth=len(vit.blocks), keep_rate=1.0, layers=(len(vit.blocks),))
    return SparseEncoder(vit, Reducer(settings), encoder.read_blocks).eval()
