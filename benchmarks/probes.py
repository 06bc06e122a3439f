"""What the probes save by computing shared blocks once, against running every probe from the pixels on.

    python benchmarks/probes.py                          # classification's shape at desk scale, random weights
    python benchmarks/probes.py --task seg --images 2
    python benchmarks/probes.py --width 768 --heads 12 --grid 14

Both sides run the same pruned blocks by the same code, in one process and with data already loaded, so that the
difference is that of shared blocks, projections and endpoints alone. A naive probe is a new `ProbeEncoder` each time;
heads, which are the same on both sides, are left out. Beside the measured ratio stands the ratio of the operations of
the blocks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from tap.config.model import ModelConfig
from tap.core.budget import keep_count
from tap.criteria.registry import CRITERIA
from tap.encoder.sparse_vit import SparseEncoder
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.dense import Dense
from tap.studies.probe_encoder import Probe, ProbeEncoder

TASKS = {
    "cls": ModelConfig(image_size=32, patch_size=4, channels=1, width=96, heads=3),
    "seg": ModelConfig(image_size=128, patch_size=8, width=96, heads=3, read_blocks=(3, 6, 9, 12)),
    "det": ModelConfig(
        image_size=128, patch_size=8, width=96, heads=3, read_blocks=(12,), class_token=False, window=4,
        global_blocks=(3, 6, 9, 12), rel_pos=True,
    ),
}  # fmt: skip


def shared(encoder: SparseEncoder, probes: Sequence[Probe], images: Tensor, rate: float) -> None:
    """All probes as the study runs them."""
    probing = ProbeEncoder(encoder, rate, [probe.criterion for probe in probes])
    probing.new_batch()
    for probe in [*probes, None]:
        probing.rewind(probe)
        probing(images)


def naive(encoder: SparseEncoder, probes: Sequence[Probe], images: Tensor, rate: float) -> None:
    """Each probe by itself, from the pixels on, and no pruning."""
    for probe in probes:
        probing = ProbeEncoder(encoder, rate, [probe.criterion])
        probing.rewind(probe)
        probing(images)
    encoder(images)


def block_operations(rows: float, width: int) -> float:
    """Multiply-accumulates of one block."""
    return 12 * rows * width * width + 2 * rows * rows * width


def operations(model: ModelConfig, probes: Sequence[Probe], rate: float) -> float:
    """Ratio of the blocks' operations, naive over shared; windows count as global blocks."""
    patches = (model.image_size // model.patch_size) ** 2
    full = block_operations(patches, model.width)
    pruned = block_operations(keep_count(patches, rate), model.width)
    behind = sum((model.depth - probe.layer + 1) * pruned for probe in probes)
    alone = sum((probe.layer - 1) * full for probe in probes)
    return (alone + behind + model.depth * full) / (behind + model.depth * full)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cls", choices=sorted(TASKS))
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=2, help="alternating runs of each side; the fastest counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--width", type=int, help="token dimension; the task's desk value if not given")
    parser.add_argument("--heads", type=int)
    parser.add_argument("--grid", type=int, help="patches per side")
    parser.add_argument("--criteria", nargs="+", default=list(CRITERIA), choices=list(CRITERIA))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = TASKS[args.task]
    changes = {"width": args.width, "heads": args.heads}
    changes["image_size"] = args.grid * model.patch_size if args.grid else None
    model = model.model_copy(update={name: value for name, value in changes.items() if value is not None})
    encoder = SparseEncoder(
        build_vit(model), Dense(ReducerSettings(model.width, model.depth)), model.read_blocks
    ).eval()
    layers = model.global_blocks or range(1, model.depth + 1)
    probes = [Probe(layer, CRITERIA[name]) for layer in layers for name in args.criteria]
    images = torch.randn(args.images, model.channels, model.image_size, model.image_size)
    times: dict[str, list[float]] = {"shared": [], "naive": []}
    with torch.inference_mode():
        for _ in range(args.repeats):
            for name, run in (("shared", shared), ("naive", naive)):
                start = time.perf_counter()
                run(encoder, probes, images, args.rate)
                times[name].append(time.perf_counter() - start)
    best = {name: min(found) for name, found in times.items()}
    print(f"{args.task}: {len(probes)} probes of {args.images} images, width {model.width}, {args.threads} threads")
    for name, seconds in best.items():
        print(f"  {name}: {seconds:.2f} s ({1000 * seconds / len(probes) / args.images:.2f} ms per image and probe)")
    saving, bound = best["naive"] / best["shared"], operations(model, probes, args.rate)
    print(f"  saving: x{saving:.2f} (operations of the blocks: x{bound:.2f})")


if __name__ == "__main__":
    main()
