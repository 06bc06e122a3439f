"""How much a pass asks of a device besides arithmetic: kernel launches and host reads, plain and in stages.

    python benchmarks/launches.py            # cls and seg shapes of ViT-B at a small size; counts depend on no size
    python benchmarks/launches.py --compile  # and the stages compiled by Inductor (needs a C++ compiler)

A launch is an operation that computes or copies, views and empty tensors left out, as torch dispatches it; of compiled
stages, a call of a generated kernel or of a library's. Counts are of one pass; those of a pruning block are what a pass
has more than one of the same encoder without pruning, over the pruning blocks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from tap.config.model import ModelConfig
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.staged import Stages
from tap.encoder.staged_encoder import StagedEncoder
from tap.plan.profiles import PRINTED_SPLITS
from tap.profiling.memory import lean_twin
from tap.profiling.subjects import follow
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.tap import Tap

READS = {"cls": (), "seg": (3, 6, 9, 12)}
EMPTY = ("empty", "detach", "alias", "lift_fresh", "_local_scalar_dense")


class Launches(TorchDispatchMode):
    """Counts operations that are no views."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += not (func.is_view or func.__name__.startswith(EMPTY))
        return func(*args, **kwargs or {})


def dispatched(run: Callable[[], object]) -> int:
    """Launches of a pass that is not compiled."""
    with torch.no_grad(), Launches() as counter:
        run()
    return counter.count


def generated(run: Callable[[], object]) -> int:
    """Launches of a compiled pass: generated kernels, and operations that the compiler has left to libraries."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    names = [event.name for event in profiler.events() if not event.cpu_children or "cpp_fused" in event.name]
    views = ("view", "reshape", "as_strided", "transpose", "permute", "slice", "select", "unsqueeze", *EMPTY)
    return sum(
        "cpp_fused" in name or (name.startswith("aten::") and not name.removeprefix("aten::").startswith(views))
        for name in names
    )


def reads(run: Callable[[], object]) -> int:
    """Host reads of a pass."""
    real, seen = Tensor.tolist, []
    Tensor.tolist = lambda tensor: (seen.append(1), real(tensor))[1]  # type: ignore[method-assign]
    try:
        run()
    finally:
        Tensor.tolist = real  # type: ignore[method-assign]
    return len(seen)


def encoder_of(task: str) -> SparseEncoder:
    """TAP at a small size, whose counts spread over images as the paper prints."""
    vit = build_vit(ModelConfig(image_size=64, patch_size=8, width=48, depth=12, heads=3))
    reducer = Tap(ReducerSettings(width=48, depth=12, keep_rate=0.5, task=task, dense=bool(READS[task])))
    follow(reducer, PRINTED_SPLITS[task])
    return SparseEncoder(vit, reducer, READS[task], RecoverySettings()).eval()


def report(task: str, batch: int, compiled: bool) -> None:
    """Prints the counts of a task's encoder."""
    torch.manual_seed(0)
    plain = encoder_of(task)
    images, ids = torch.randn(batch, 3, 64, 64), torch.arange(batch)
    staged = StagedEncoder(plain.vit, plain.reducer, plain.read_blocks, plain.recovery).eval()
    twin = lean_twin(plain)
    dense = dispatched(lambda: twin(images, ids))
    with torch.no_grad():
        for name, encoder in (("plain", plain), ("staged", staged)):
            run = partial(encoder, images, ids)
            count = dispatched(run)
            more = (count - dense) / len(plain.reducer.settings.layers)
            print(f"{task} {name}: {count} launches (dense {dense}), {more:.0f} per pruning block; {reads(run)} reads")
        if compiled:
            compiler = partial(torch.compile, fullgraph=True, dynamic=False)
            staged.stages = Stages(plain.vit, plain.reducer, plain.read_blocks, None, compiler)
            run = partial(staged, images, ids)
            run()
            print(f"{task} staged, compiled: {generated(run)} launches", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true", help="compile the stages by Inductor as well")
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    for task in READS:
        report(task, args.batch, args.compile)


if __name__ == "__main__":
    main()
