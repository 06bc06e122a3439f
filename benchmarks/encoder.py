"""Dense against TAP encoder: ViT-B, the same attention kernel on both sides, one process, alternating runs.

    python benchmarks/encoder.py                      # CPU: 224, batch 8, fp32, 2 threads
    python benchmarks/encoder.py --device cuda        # GPU: 224, batch 128, bf16
    python benchmarks/encoder.py --task seg           # CPU: 512, batch 1, with recovery at four read points

Prints the speed-up beside its bound, the ratio of floating-point operations, and the memory that a pass of either side
needs on top of the weights. Weights are random, since time depends on counts only. TAP spends a third of the budget at
each pruning block on average, and its counts differ from image to image as they do in a trained model (`--spread`, in
logits; 0 makes them equal).
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from tap.config.schema import ModelConfig
from tap.core.budget import Allocation, allocate, keep_count
from tap.encoder.recovery import RecoverySettings
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.profiling.throughput import dense_twin, precision, profile_encoder
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.registry import get
from tap.reducers.tap import Tap


def block_flops(tokens: float, width: int, candidates: float | None = None) -> float:
    """Multiply-accumulates of one block on `tokens` rows; keys are projected for all `candidates`."""
    keys = tokens if candidates is None else candidates
    return width * width * (keys + 11 * tokens) + 2 * tokens * tokens * width


def bound(counts: list[float], patches: int, prefix: int, layers: tuple[int, ...], depth: int, width: int) -> float:
    """Ratio of the operations of the dense encoder to those of the pruned one, embedding included."""
    embed = patches * width * 3 * 16 * 16
    dense = embed + depth * block_flops(patches + prefix, width)
    sparse, current = float(embed), float(patches)
    for layer in range(1, depth + 1):
        before = current
        if layer in layers:
            current = counts[layers.index(layer)]
        sparse += block_flops(current + prefix + 1, width, before + prefix + 1)
    return dense / sparse


class SpreadTap(Tap):
    """TAP whose readout is replaced by equal shares with a seeded spread over images; everything else is computed."""

    def __init__(self, settings: ReducerSettings, spread: float) -> None:
        super().__init__(settings)
        self.spread = spread

    def allocate(self, layer: int, tokens: Tokens, register_state: Tensor, state: ForwardState) -> Allocation:
        logit = self.controller.share_logit(register_state)
        if layer == self.settings.layers[-1]:
            return super().allocate(layer, tokens, register_state, state)
        left = len(self.settings.layers) - self.settings.layers.index(layer)
        draw = torch.linspace(-1.7, 1.7, len(logit), device=logit.device).roll(layer) * (len(logit) > 1)
        logit = logit * 0 - math.log(left - 1) + self.spread * draw
        counts = tokens.layout.counts_tensor
        return allocate(logit, counts - state.keep_count, counts, last=False)


@dataclass(frozen=True)
class Shape:
    """What a task's encoder is measured on: side of the image, blocks that a dense head reads, images by device."""

    side: int
    read_blocks: tuple[int, ...]
    batch: dict[str, int]


SHAPES = {"cls": Shape(224, (), {"cpu": 8, "cuda": 128}), "seg": Shape(512, (3, 6, 9, 12), {"cpu": 1, "cuda": 8})}


def build(args: argparse.Namespace, device: torch.device) -> SparseEncoder:
    """The method's encoder with random weights."""
    shape = SHAPES[args.task]
    model = ModelConfig(timm_name="vit_base_patch16_224.mae", image_size=shape.side, patch_size=16)
    vit: VisionTransformer = build_vit(model)
    settings = ReducerSettings(
        width=vit.embed_dim,
        depth=len(vit.blocks),
        keep_rate=args.rate,
        task=args.task,
        dense=bool(shape.read_blocks),
    )
    reducer = SpreadTap(settings, args.spread) if args.method == "tap" else get(args.method)(settings)
    recovery = RecoverySettings() if args.method == "tap" else RecoverySettings(scale=1.0)
    return SparseEncoder(vit, reducer, shape.read_blocks, recovery).to(device).eval()


def peak_mib(call: Callable[[], object], device: torch.device) -> float:
    """Memory that a pass needs on top of the weights, as torch's allocator sees it."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text())["traceEvents"]
    changes = sorted((event for event in events if event["name"] == "[memory]"), key=lambda event: event["ts"])
    totals = [event["args"]["Total Allocated"] for event in changes]
    return (max(totals) - totals[0] + changes[0]["args"]["Bytes"]) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cls", choices=sorted(SHAPES))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, help="images (cls: 8 on a CPU, 128 on a GPU; seg: 1 and 8)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], help="fp32 on a CPU, bf16 on a GPU")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--rate", type=float, default=0.5, help="final keep rate")
    parser.add_argument("--method", default="tap", help="reducer by name")
    parser.add_argument("--spread", type=float, default=0.2, help="spread of TAP's shares over images, in logits")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=15)
    args = parser.parse_args()

    device = torch.device(args.device)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    shape = SHAPES[args.task]
    batch = args.batch or shape.batch[device.type]
    dtype = args.dtype or ("fp32" if device.type == "cpu" else "bf16")
    encoder = build(args, device)
    images = torch.randn(batch, 3, shape.side, shape.side, device=device)
    ids = torch.arange(batch, device=device)
    with torch.inference_mode(), precision(device, dtype):
        trace = encoder(images, ids, return_trace=True).trace
    patches = encoder.vit.patch_embed.num_patches
    counts = (patches - trace.removals.double().cumsum(dim=1)).mean(dim=0).tolist()
    assert (trace.final_counts == keep_count(patches, args.rate)).all()
    result = profile_encoder(encoder, images, ids, args.warmup, args.iterations, dtype)
    layers = encoder.reducer.settings.layers
    result["flop_bound"] = bound(counts, patches, 1, layers, len(encoder.vit.blocks), encoder.vit.embed_dim)
    result["mean_counts"] = [round(count, 1) for count in counts]
    twin = dense_twin(encoder).eval()
    with torch.inference_mode(), precision(device, dtype):
        result["peak_mib"] = round(peak_mib(lambda: encoder(images, ids), device), 1)
        result["dense_peak_mib"] = round(peak_mib(lambda: twin(images), device), 1)
    result["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    result["torch"] = torch.__version__
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
