"""How time and memory of TAP and of the dense encoder grow with patches, batch and keep rate, recovery included.

    python benchmarks/growth.py                        # ViT-B/16 on a CPU, 196 to 4,096 patches
    python benchmarks/growth.py --device cuda --sides 224 512 1024 2048 --batches 1 8 64 256
    python benchmarks/growth.py --no-time              # memory alone, which another load does not disturb

Plain global attention in all blocks, read points as in segmentation. Prints a line per point: patches, batch, rate,
speed-up over the dense encoder, peak of both, and the share of TAP's time that matching takes, whose work is O(R S).
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product

import torch

from tap.config.schema import ModelConfig
from tap.encoder.sparse_vit import SparseEncoder
from tap.errors import UserError
from tap.plan.profiles import PRINTED_SPLITS
from tap.profiling.components import components
from tap.profiling.memory import lean_twin, peak_bytes
from tap.profiling.subjects import follow
from tap.profiling.throughput import alternate, dense_twin, precision
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.tap import Tap

READS = (3, 6, 9, 12)


class Bare(torch.nn.Module):
    """An encoder without a head, for the components."""

    def __init__(self, encoder: SparseEncoder) -> None:
        super().__init__()
        self.encoder = encoder


def build(args: argparse.Namespace, side: int, rate: float) -> SparseEncoder:
    """TAP with the printed split."""
    vit = build_vit(ModelConfig(timm_name=args.model, image_size=side, patch_size=16))
    settings = ReducerSettings(width=vit.embed_dim, depth=len(vit.blocks), keep_rate=rate, task="seg", dense=True)
    reducer = Tap(settings)
    follow(reducer, PRINTED_SPLITS["seg"])
    return SparseEncoder(vit, reducer, READS).to(args.device).eval()


def point(args: argparse.Namespace, side: int, batch: int, rate: float) -> dict[str, float | int | str]:
    """One point of the growth."""
    torch.manual_seed(0)
    device = torch.device(args.device)
    encoder = build(args, side, rate)
    images, ids = torch.randn(batch, 3, side, side, device=device), torch.arange(batch, device=device)
    found: dict[str, float | int | str] = {"patches": (side // 16) ** 2, "batch": batch, "keep rate": rate}
    with torch.inference_mode(), precision(device, "bf16" if device.type == "cuda" else "fp32"):
        twin = dense_twin(encoder).eval()
        sides = {"TAP MiB": encoder, "dense MiB": twin, "dense in pieces MiB": lean_twin(encoder)}
        for name, run in sides.items():
            found[name] = round(peak_bytes(partial(run, images, ids), device) / 2**20, 1)
        if args.time:
            both = partial(twin, images, ids), partial(encoder, images, ids)
            timing = alternate(*both, device, 1, args.iterations)
            parts = components(Bare(encoder), both[1], device, args.iterations)
            found["speed-up"] = round(timing.ratio, 2)
            found["matching %"] = round(100 * parts["matching"] / sum(parts.values()), 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="vit_base_patch16_224.mae", help="timm's name, with patches of 16")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sides", type=int, nargs="+", default=[224, 448, 1024], help="of the image, in pixels")
    parser.add_argument("--batches", type=int, nargs="+", default=[1])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.1, 0.3, 0.5, 0.7, 0.9])
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--no-time", dest="time", action="store_false")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch sees no GPU here")
    for side, batch, rate in product(args.sides, args.batches, args.rates):
        if side % 16:
            parser.error(f"--sides: {side} is no multiple of the patch, 16")
        print(point(args, side, batch, rate), flush=True)


if __name__ == "__main__":
    main()
