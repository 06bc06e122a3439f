"""Dense against TAP encoder: ViT-B, the same attention kernel on both sides, one process, alternating runs.

    python benchmarks/encoder.py                      # CPU: 224, batch 8, fp32, 2 threads
    python benchmarks/encoder.py --device cuda        # GPU: 224, batch 128, bf16

Prints the speed-up beside its bound, the ratio of floating-point operations. Weights are random, since time depends on
counts only. TAP spends a third of the budget at each pruning block on average, and its counts differ from image to
image as they do in a trained model (`--spread`, in logits; 0 makes them equal).
"""

from __future__ import annotations

import argparse
import json
import math
import platform

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tap.config.schema import ModelConfig
from tap.core.budget import Allocation, allocate, keep_count
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.profiling.throughput import profile_encoder
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
        draw = torch.linspace(-1.7, 1.7, len(logit), device=logit.device).roll(layer)
        logit = logit * 0 - math.log(left - 1) + self.spread * draw
        counts = tokens.layout.counts_tensor
        return allocate(logit, counts - state.keep_count, counts, last=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, help="images (8 on a CPU, 128 on a GPU)")
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
    batch = args.batch or (8 if device.type == "cpu" else 128)
    dtype = args.dtype or ("fp32" if device.type == "cpu" else "bf16")
    vit: VisionTransformer = build_vit(ModelConfig(timm_name="vit_base_patch16_224.mae", image_size=224, patch_size=16))
    settings = ReducerSettings(width=vit.embed_dim, depth=len(vit.blocks), keep_rate=args.rate)
    reducer = SpreadTap(settings, args.spread) if args.method == "tap" else get(args.method)(settings)
    encoder = SparseEncoder(vit, reducer).to(device).eval()
    images = torch.randn(batch, 3, 224, 224, device=device)
    ids = torch.arange(batch, device=device)

    with torch.inference_mode():
        trace = encoder(images, ids, return_trace=True).trace
    counts = (196 - trace.removals.double().cumsum(dim=1)).mean(dim=0).tolist()
    assert (trace.final_counts == keep_count(196, args.rate)).all()
    result = profile_encoder(encoder, images, ids, args.warmup, args.iterations, dtype)
    result["flop_bound"] = bound(counts, 196, 1, settings.layers, len(vit.blocks), vit.embed_dim)
    result["mean_counts"] = [round(count, 1) for count in counts]
    result["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    result["torch"] = torch.__version__
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
