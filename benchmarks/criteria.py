"""Time of the eleven probe criteria against the number of patches.

    python benchmarks/criteria.py                                # CPU: 196, 1024 and 4096 patches, batch 1 and 8
    python benchmarks/criteria.py --device cuda --json times.json

Prints seconds for a batch, the least of a few repetitions. Every repetition starts from nothing: cosines and the order
of coverage are made anew. The last row runs all criteria on the same states, as the probe does, where tokens and keys
each need their cosines once. States are a smooth field with noise (`--states noise`: patches on their own; `hub`: ones
at very different cosines to one direction, for which the greedy rules look at more pairs).
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from math import isqrt
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate, normalize

from tap.core.budget import keep_count
from tap.criteria.base import ProbeInputs
from tap.criteria.coverage import coverage_order
from tap.criteria.registry import CRITERIA

EVERYTHING = "all, same states"


def states(kind: str, batch: int, side: int, width: int) -> Tensor:
    """`(B, N, d)`."""
    noise = torch.randn(batch, side * side, width)
    if kind == "noise":
        return noise
    if kind == "hub":
        near = torch.empty(batch, side * side, 1).uniform_(0.2, 0.95)
        return near * normalize(torch.randn(batch, 1, width), dim=-1) + (1 - near**2).sqrt() * normalize(noise, dim=-1)
    coarse = torch.randn(batch, width, max(1, side // 4), max(1, side // 4))
    return interpolate(coarse, size=(side, side), mode="bilinear").flatten(2).transpose(1, 2) + 0.1 * noise


def build(args: argparse.Namespace, batch: int, patches: int) -> ProbeInputs:
    side = isqrt(patches)
    if side * side != patches:
        raise SystemExit(f"--patches: {patches} is not the square of a whole number")
    attention = torch.rand(2, batch, patches)
    ids = torch.arange(batch)
    tokens, keys = (states(args.states, batch, side, args.width) for _ in range(2))
    tensors = [tensor.to(args.device) for tensor in (tokens, keys, *attention)]
    return ProbeInputs(*tensors, grid=(side, side), sample_ids=ids.to(args.device), layer=3)


def least_seconds(call: Callable[[], object], repeats: int) -> float:
    """Wall time of the fastest repetition."""
    times = []
    for _ in range(repeats):
        coverage_order.cache_clear()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(args: argparse.Namespace, batch: int, patches: int) -> dict[str, float]:
    """Seconds of every criterion on one batch."""
    inputs = build(args, batch, patches)
    count = keep_count(patches, args.rate)

    def run(*names: str) -> None:
        fresh = replace(inputs)
        for name in names:
            CRITERIA[name].keep(fresh, count)

    seconds = {name: least_seconds(lambda name=name: run(name), args.repeats) for name in CRITERIA}
    return {**seconds, EVERYTHING: least_seconds(lambda: run(*CRITERIA), args.repeats)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patches", type=int, nargs="+", default=[196, 1024, 4096])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--rate", type=float, default=0.5, help="local keep rate")
    parser.add_argument("--states", choices=["smooth", "noise", "hub"], default="smooth")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    columns = [(batch, patches) for batch in args.batch for patches in args.patches]
    print("seconds".ljust(18) + "".join(f"{f'{batch} x {patches}':>12}" for batch, patches in columns))
    times = {f"{batch} x {patches}": measure(args, batch, patches) for batch, patches in columns}
    for name in [*CRITERIA, EVERYTHING]:
        print(name.ljust(18) + "".join(f"{column[name]:12.4f}" for column in times.values()))
    if args.json:
        device = torch.cuda.get_device_name() if args.device == "cuda" else platform.processor() or "cpu"
        settings = {key: value for key, value in vars(args).items() if key not in ("json", "patches", "batch")}
        record = {**settings, "device_name": device, "torch": torch.__version__, "seconds": times}
        args.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
