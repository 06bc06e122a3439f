"""Dense against TAP encoder: ViT-B, the same attention kernel on both sides, one process, alternating runs.

    python benchmarks/encoder.py                      # CPU: 224, batch 8, fp32, 2 threads
    python benchmarks/encoder.py --device cuda        # GPU: 224, batch 128, bf16
    python benchmarks/encoder.py --task seg           # CPU: 512, batch 1, with recovery at four read points
    python benchmarks/encoder.py --task det           # CPU: 1024, batch 1, windows of 14, with recovery at the end
    python benchmarks/encoder.py --task det --full    # and the full model, heads of the paper scale included

Prints the speed-up beside its bound, the ratio of floating-point operations, and the memory that a pass of either side
needs on top of the weights: a JSON object per measurement, as soon as it is made. Weights are random, since time
depends on counts only. TAP spends a third of the budget at each pruning block on average, and its counts differ from
image to image as they do in a trained model (`--spread`, in logits; 0 makes them equal).

For detection there are two bounds: of the operations as the paper counts them, and of those that the kernels do, in
which relative position makes queries and keys longer. The dense trunk in its usual form (padded windows, explicit
bias) is timed as well.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from usual_vitdet import usual_forward

from tap.config.load import load_scale
from tap.config.methods import DENSE
from tap.config.model import ModelConfig
from tap.core.budget import Allocation, allocate, keep_count
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.encoder.trace import Trace
from tap.encoder.vitdet import on_grid
from tap.plan.specs import job_spec
from tap.profiling.memory import lean_twin, peak_bytes
from tap.profiling.throughput import alternate, dense_twin, precision, profile_encoder, profile_model
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.registry import get
from tap.reducers.tap import Tap
from tap.runs import Run
from tap.tasks.registry import get_task

ROOT = Path(__file__).parents[1]
# Random heads score every class about alike, 1/81. With the recipe's threshold they find nothing and the mask head is
# not timed; with one slightly above that it gets its 100 objects, and suppression a twentieth of all boxes.
FULL = {"det": {"tasks.det.model.detector.score_threshold": 0.015}, "seg": {}}


def linear_flops(tokens: float, width: int, candidates: float | None = None) -> float:
    """Multiply-accumulates of one block's linear maps on `tokens` rows; keys are projected for all `candidates`."""
    keys = tokens if candidates is None else candidates
    return width * width * (keys + 11 * tokens)


def bound(counts: list[float], patches: int, prefix: int, layers: tuple[int, ...], depth: int, width: int) -> float:
    """Ratio of the operations of the dense encoder to those of the pruned one, embedding included."""
    embed = patches * width * 3 * 16 * 16
    dense = embed + depth * (linear_flops(patches + prefix, width) + 2 * (patches + prefix) ** 2 * width)
    sparse, current = float(embed), float(patches)
    for layer in range(1, depth + 1):
        before = current
        if layer in layers:
            current = counts[layers.index(layer)]
        rows = current + prefix + 1
        sparse += linear_flops(rows, width, before + prefix + 1) + 2 * rows * rows * width
    return dense / sparse


def grid_bounds(vit: Any, trace: Trace) -> dict[str, float]:
    """Both bounds of a ViTDet trunk for the patches that were kept, from the pairs inside each window."""
    images, patches = len(trace.final_counts), trace.grid[0] * trace.grid[1]
    dense = torch.ones(images, patches, dtype=torch.bool)
    macs = {"flop_bound": [0.0, 0.0], "executed_bound": [0.0, 0.0]}
    for side, (pruned, register) in enumerate([({}, 0), (trace.kept, 1)]):
        kept = dense
        for layer, block in enumerate(vit.blocks, start=1):
            before, kept = kept, pruned.get(layer, kept).cpu()
            attn = block.attn
            if attn.side is None:
                pairs, extent = (kept.sum(dim=1) + register).double().square().sum().item(), sum(trace.grid)
            else:
                pairs, extent = window_pairs(kept, trace.grid, attn.side), 2 * attn.side
            rows, candidates = int(kept.sum()) + images * register, int(before.sum()) + images * register
            linear = linear_flops(rows, vit.embed_dim, candidates)
            macs["flop_bound"][side] += linear + 2 * pairs * vit.embed_dim
            tables = 2 * rows * extent * vit.embed_dim
            removed = ((before.sum(1) - kept.sum(1)) * kept.sum(1)).sum().item()
            longer = pairs * attn.num_heads * (2 * attn.head_dim + extent)
            macs["executed_bound"][side] += linear + longer + tables + removed * vit.embed_dim
    embed = images * patches * vit.embed_dim * 3 * 16 * 16
    return {name: (embed + full) / (embed + sparse) for name, (full, sparse) in macs.items()}


def window_pairs(kept: Tensor, grid: tuple[int, int], side: int) -> float:
    """Pairs of patches that share a window, of all images."""
    cells = F.pad(kept.double().unflatten(1, grid), (0, -grid[1] % side, 0, -grid[0] % side))
    held = F.avg_pool2d(cells[:, None], side) * side * side
    return held.square().sum().item()


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


SHAPES = {
    "cls": Shape(224, (), {"cpu": 8, "cuda": 128}),
    "seg": Shape(512, (3, 6, 9, 12), {"cpu": 1, "cuda": 8}),
    "det": Shape(1024, (12,), {"cpu": 1, "cuda": 1}),
}
TRUNK: dict[str, Any] = {"class_token": False, "window": 14, "global_blocks": (3, 6, 9, 12), "rel_pos": True}


def build(args: argparse.Namespace, side: int, device: torch.device) -> SparseEncoder:
    """The method's encoder with random weights."""
    shape = SHAPES[args.task]
    trunk = TRUNK if args.task == "det" else {}
    model = ModelConfig(timm_name="vit_base_patch16_224.mae", image_size=side, patch_size=16, **trunk)
    vit: VisionTransformer = build_vit(model)
    for name, parameter in vit.named_parameters():
        if ".rel_pos_" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    settings = ReducerSettings(
        width=vit.embed_dim,
        depth=len(vit.blocks),
        keep_rate=args.rate,
        task=args.task,
        class_token=vit.has_class_token,
        dense=bool(shape.read_blocks),
    )
    reducer = SpreadTap(settings, args.spread) if args.method == "tap" else get(args.method)(settings)
    recovery = RecoverySettings() if args.method == "tap" else RecoverySettings(scale=1.0)
    return SparseEncoder(vit, reducer, shape.read_blocks, recovery).to(device).eval()


def build_full(encoder: SparseEncoder, task: str) -> nn.Module:
    """The paper scale's model around the encoder, with random heads."""
    spec = job_spec(load_scale("paper", FULL[task], ROOT), Run("paper", task, DENSE))
    model: Any = get_task(spec).build_model(spec)
    encoder.vit.norm = model.encoder.vit.norm
    model.encoder = encoder
    return model.to(next(encoder.parameters()).device).eval()


def check_usual_form(encoder: SparseEncoder, images: Tensor) -> None:
    """Refuses to time a usual form that computes something else; in float32, where both agree to 1e-5."""
    vit, twin = encoder.vit, dense_twin(encoder).eval()
    for block in vit.blocks:
        block.attn.padded = True  # the usual form has padding as keys
    torch.testing.assert_close(usual_forward(vit, images), twin(images).grids[-1], rtol=1e-4, atol=1e-4)
    for block in vit.blocks:
        block.attn.padded = False


def time_usual_form(encoder: SparseEncoder, images: Tensor, ids: Tensor, iterations: int) -> dict[str, float]:
    """The dense ViTDet trunk in its usual form against the encoder."""
    timing = alternate(
        lambda: usual_forward(encoder.vit, images), lambda: encoder(images, ids), images.device, 1, iterations
    )
    return {"usual_dense_images_per_second": len(images) / timing.reference, "speedup_over_usual": timing.ratio}


def show(result: dict[str, Any]) -> None:
    """Prints now: what follows takes long, and may fail."""
    print(json.dumps(result, indent=2), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cls", choices=sorted(SHAPES))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--full", action="store_true", help="time the full model of a dense task as well")
    parser.add_argument("--side", type=int, help="side of the image (cls: 224; seg: 512; det: 1024)")
    parser.add_argument("--batch", type=int, help="images (cls: 8 on a CPU, 128 on a GPU; seg: 1 and 8; det: 1)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], help="fp32 on a CPU, bf16 on a GPU")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--rate", type=float, default=0.5, help="final keep rate")
    parser.add_argument("--method", default="tap", help="reducer by name")
    parser.add_argument("--spread", type=float, default=0.2, help="spread of TAP's shares over images, in logits")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=15)
    args = parser.parse_args()
    if args.full and args.task not in FULL:
        parser.error(f"--full: is for {' and '.join(FULL)}; the head of {args.task} is one linear layer")

    device = torch.device(args.device)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    shape = SHAPES[args.task]
    batch = args.batch or shape.batch[device.type]
    dtype = args.dtype or ("fp32" if device.type == "cpu" else "bf16")
    side = args.side or shape.side
    encoder = build(args, side, device)
    images = torch.randn(batch, 3, side, side, device=device)
    ids = torch.arange(batch, device=device)
    if on_grid(encoder.vit):
        with torch.inference_mode():
            check_usual_form(encoder, images[:1])
    with torch.inference_mode(), precision(device, dtype):
        trace = encoder(images, ids, return_trace=True).trace
    patches = trace.grid[0] * trace.grid[1]
    counts = (patches - trace.removals.double().cumsum(dim=1)).mean(dim=0).tolist()
    assert (trace.final_counts == keep_count(patches, args.rate)).all()
    how = (args.warmup, args.iterations, dtype)
    result: dict[str, Any] = profile_encoder(encoder, images, ids, *how)
    if on_grid(encoder.vit):
        result |= grid_bounds(encoder.vit, trace)
    else:
        layers = encoder.reducer.settings.layers
        result["flop_bound"] = bound(counts, patches, 1, layers, len(encoder.vit.blocks), encoder.vit.embed_dim)
    result["mean_counts"] = [round(count, 1) for count in counts]
    result["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    result["torch"] = torch.__version__
    show(result)
    twin = dense_twin(encoder).eval()
    with torch.inference_mode(), precision(device, dtype):
        passes = {"peak_mib": encoder, "dense_peak_mib": twin, "dense_in_pieces_peak_mib": lean_twin(encoder)}
        show({name: round(peak_bytes(lambda: run(images, ids), device) / 2**20, 1) for name, run in passes.items()})  # noqa: B023
        if on_grid(encoder.vit):
            show(time_usual_form(encoder, images, ids, args.iterations))
    if args.full:
        show(profile_model(build_full(encoder, args.task), images, ids, *how))


if __name__ == "__main__":
    main()
