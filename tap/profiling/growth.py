"""How time and memory of TAP and of the dense encoder grow with patches, batch and keep rate, recovery included.

Blocks attend globally and a dense head would read after blocks 3, 6, 9 and 12, as in segmentation. What matching takes,
whose work is O(R S), stands beside each time.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from tap.config.model import ModelConfig
from tap.encoder.sparse_vit import SparseEncoder
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.plan.growth import GROWTH, GrowthKey, GrowthProtocol, Point, growth_protocol
from tap.plan.profiles import PRINTED_SPLITS, ProfileKey, profile_folder
from tap.profiling.components import components
from tap.profiling.memory import peak_bytes
from tap.profiling.subjects import follow
from tap.profiling.throughput import alternate, dense_twin, kernel_of, precision
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, Stamp, record_job
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.tap import Tap

READS: Final = (3, 6, 9, 12)
_PATCH: Final = 16


class Bare(torch.nn.Module):
    """An encoder without a head, for the components."""

    def __init__(self, encoder: SparseEncoder) -> None:
        super().__init__()
        self.encoder = encoder


def profile_growth(key: GrowthKey, stamp: Stamp = BY_HAND) -> Path:
    """Measures all points on this machine, and writes them with a record.

    Args:
        key: machine and shapes.
        stamp: what the record says of the job.

    Returns:
        The file.

    Raises:
        UserError: there is no such GPU, or the folder cannot be written.
    """
    started, how = datetime.now(UTC), growth_protocol(key)
    device = select_device("cpu" if key.device.startswith("cpu-") else "cuda")
    path = profile_folder(ProfileKey(key.device, key.shapes, GROWTH)) / f"{GROWTH}.json"
    with cpu_threads(how.threads) if device.type == "cpu" else nullcontext():
        about = {
            "task": GROWTH,
            "shapes": key.shapes,
            "device": describe_device(device),
            "torch": torch.__version__,
            "protocol": asdict(how),
        }
        found = {"about": about, "kernel": "", "points": []}
        for point in how.points:
            encoder = build(how, point, device)
            found["kernel"] = kernel_of(encoder, device, how.dtype)
            found["points"].append({**point._asdict(), **_fitting(encoder, point, how, device)})
        written = atomic_write(path, json.dumps(found, indent=1) + "\n")
        record_job(
            path.with_suffix(".record.json"),
            stamp,
            inputs=[],
            outputs=[written],
            started=started,
            device=describe_device(device),
            threads=torch.get_num_threads(),
        )
    return written


def build(how: GrowthProtocol, point: Point, device: torch.device) -> SparseEncoder:
    """TAP with the printed split of segmentation."""
    torch.manual_seed(0)
    side = _PATCH * round(point.patches**0.5)
    model = ModelConfig(image_size=side, patch_size=_PATCH, width=how.width, heads=how.heads)
    reducer = Tap(ReducerSettings(width=how.width, depth=model.depth, keep_rate=point.rate, task="seg", dense=True))
    follow(reducer, PRINTED_SPLITS["seg"])
    return SparseEncoder(build_vit(model), reducer, READS).to(device).eval()


def _fitting(encoder: SparseEncoder, point: Point, how: GrowthProtocol, device: torch.device) -> dict[str, Any]:
    try:
        return measure(encoder, point, how, device)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        print(f"growth: {point.patches} patches, batch {point.batch}: out of memory", file=sys.stderr)
        return {"out_of_memory": True}


def measure(encoder: SparseEncoder, point: Point, how: GrowthProtocol, device: torch.device) -> dict[str, Any]:
    """Milliseconds per image and peaks of both sides, and the share of TAP's time that matching takes."""
    shape = point.batch, 3, *encoder.vit.patch_embed.img_size
    images, ids = torch.randn(*shape, device=device), torch.arange(point.batch, device=device)
    with torch.inference_mode(), precision(device, how.dtype):
        dense, sparse = partial(dense_twin(encoder).eval(), images, ids), partial(encoder, images, ids)
        found: dict[str, Any] = {"peak_mib": peak_bytes(sparse, device), "dense_peak_mib": peak_bytes(dense, device)}
        found = {name: size / 2**20 for name, size in found.items()}
        timing = alternate(dense, sparse, device, how.warmup, how.iterations)
        parts, _ = components(Bare(encoder), sparse, device, 1)
    return found | {
        "ms": 1000 * timing.subject / point.batch,
        "dense_ms": 1000 * timing.reference / point.batch,
        "speedup": timing.ratio,
        "matching_percent": 100 * parts["matching"] / sum(parts.values()),
    }
