"""Every method beside the dense encoder: ViT-B at 224, the same attention kernel, one process, alternating runs.

    python benchmarks/methods.py                          # 8 images, fp32, 2 threads, all methods
    python benchmarks/methods.py evit tome --json out.json
    python benchmarks/methods.py --device cuda --batch 128

Four numbers stand beside each other, each relative to the dense encoder: the bound (ratio of multiply-accumulates of
attention, MLP and embedding, from the rows that each block really got), the same with every matrix product that the
method adds (heads, gates and predictors, scores, similarities), the speed of an encoder that is cut to the same rows
without any choice, and the method's own. So a method far below its bound says why: what the second loses is arithmetic
of its own, what the third loses is the kernels', which like long sequences better, and "own time" is the share of the
method's time that the third does not take: that arithmetic, sorting, packing, reading counts back. Weights and images
are random, and thresholds of methods with a varying count are set for these images; time depends on counts only.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from timm.models.vision_transformer import Block
from torch import Tensor

from tap.config.methods import DENSE, METHODS, TAP
from tap.config.model import ModelConfig
from tap.core.budget import keep_count
from tap.encoder.attention import kernel_name
from tap.encoder.blocks import add_attention, project, run_mlp
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.engine.calibration import find_threshold
from tap.profiling.flops import counted
from tap.profiling.throughput import alternate, dense_twin, precision
from tap.provenance.fingerprint import module_exists
from tap.reducers.base import Reducer, ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.registry import get

SIDE, PATCH = 224, 16


@dataclass(frozen=True)
class Rows:
    """Mean rows per image of one block, prefix rows included: that are projected to keys, attend, enter the MLP."""

    keys: float
    attend: float
    mlp: float

    def macs(self, width: int) -> float:
        """Multiply-accumulates of the block per image; images of different length are taken as equally long."""
        return width**2 * (self.keys + 3 * self.attend + 8 * self.mlp) + 2 * self.attend**2 * width


@dataclass(frozen=True)
class Result:
    """One line of the table; speeds are relative to the dense encoder."""

    method: str
    title: str
    tokens: float
    bound: float
    all_operations: float
    cut: float
    speed: float
    images_per_second: float
    own_share: float
    parameters: int


class Cut(Reducer):
    """Takes the first rows of every image, as many as another method had in each block, without any choice."""

    name, title = "cut", "cut"

    def __init__(self, settings: ReducerSettings, rows: list[Rows]) -> None:
        super().__init__(settings)
        self.rows = rows

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        rows = self.rows[layer - 1]
        tokens = self._resized(tokens, round(rows.attend), state)
        hidden = block.norm1(tokens.x)
        query, key, value = (project(block.attn, hidden, part) for part in ("q", "k", "v"))
        tokens = add_attention(block, tokens, hidden, query, key, value)
        return run_mlp(block, self._resized(tokens, round(rows.mlp), state))

    @staticmethod
    def _resized(tokens: Tokens, rows: int, state: ForwardState) -> Tokens:
        """Cuts rows off, or takes some back that were cut off before (methods whose patches return)."""
        present = tokens.rectangle
        off: list[Tensor] = state.memory.setdefault("off", [])
        if rows < present.shape[1]:
            off.append(present[:, rows:])
            present = present[:, :rows]
        elif rows > present.shape[1]:
            present = torch.cat([present, *reversed(off)], dim=1)
            off[:] = [present[:, rows:]]
            present = present[:, :rows]
        else:
            return tokens
        return Tokens.dense(present, tokens.layout.prefix)


def build(method: str, args: argparse.Namespace, device: torch.device) -> SparseEncoder:
    """The method's encoder with random weights, in a shape that the method has: dense tasks read the last grid."""
    tasks = METHODS[method].tasks
    task = "cls" if "cls" in tasks else tasks[0]
    model = ModelConfig(timm_name=args.model, image_size=SIDE, patch_size=PATCH, class_token=task != "det")
    torch.manual_seed(0)
    vit = build_vit(model)
    settings = ReducerSettings(
        width=vit.embed_dim,
        depth=len(vit.blocks),
        keep_rate=args.rate,
        task=task,
        class_token=model.class_token,
        dense=task != "cls",
        num_classes=1000 if task == "cls" else 150,
        patches=(SIDE // PATCH) ** 2,
    )
    recovery = RecoverySettings() if method == TAP else RecoverySettings(scale=1.0)
    encoder = SparseEncoder(vit, get(method)(settings), (settings.depth,) if settings.dense else (), recovery)
    return encoder.to(device).eval()


def to_mean_of_k(encoder: SparseEncoder, images: Tensor, ids: Tensor) -> None:
    """Sets the threshold of a method with a varying count for these images."""
    reducer: Any = encoder.reducer
    wanted = keep_count(encoder.vit.patch_embed.num_patches, reducer.keep_rate)

    def count(threshold: float) -> tuple[float, float]:
        reducer.threshold.fill_(threshold)
        return sum(encoder(images, ids).final_counts) / len(images), wanted

    if reducer.method.calibrated:
        reducer.threshold.fill_(find_threshold(count, *reducer.threshold_range)[0])


@contextmanager
def counting(encoder: SparseEncoder, images: int) -> Iterator[list[dict[str, float]]]:
    """Counts the rows that each block's parts get in the passes inside."""
    counts: list[dict[str, float]] = [{} for _ in encoder.vit.blocks]
    handles = []
    for block, count in zip(encoder.vit.blocks, counts, strict=True):
        for name, part in (("keys", block.norm1), ("attend", block.attn.proj), ("mlp", block.mlp.fc1)):

            def add(
                _module: Any, inputs: tuple[Tensor, ...], count: dict[str, float] = count, name: str = name
            ) -> None:
                count[name] = count.get(name, 0.0) + inputs[0].shape[:-1].numel() / images

            handles.append(part.register_forward_pre_hook(add))
    yield counts
    for handle in handles:
        handle.remove()


def measure(method: str, args: argparse.Namespace, device: torch.device) -> Result:
    """Counts the rows, then times dense against cut, and dense against the method."""
    encoder = build(method, args, device).requires_grad_(False)
    images = torch.randn(args.batch, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)).to(device)
    ids = torch.arange(args.batch, device=device)
    with torch.inference_mode(), precision(device, args.dtype):
        to_mean_of_k(encoder, images, ids)
        with counting(encoder, args.batch) as counts:
            output = encoder(images, ids)
        # A method that calls a part twice, or not at all, in a block has its sum there.
        rows = [Rows(**{name: count.get(name, 0.0) for name in ("keys", "attend", "mlp")}) for count in counts]
        twin = dense_twin(encoder).eval()
        with torch.autocast(device.type, enabled=False):
            products = [counted(run) for run in (lambda: twin(images), lambda: encoder(images, ids))]
        whole = twin(images).tokens.layout
        plain = Rows(*[float(whole.width + whole.prefix)] * 3)
        cut = SparseEncoder(encoder.vit, Cut(encoder.reducer.settings, rows)).eval()
        width = encoder.vit.embed_dim
        embed = encoder.vit.patch_embed.num_patches * width * 3 * PATCH**2
        cutting = alternate(lambda: twin(images), lambda: cut(images), device, args.warmup, args.iterations)
        timing = alternate(lambda: twin(images), lambda: encoder(images, ids), device, args.warmup, args.iterations)
    return Result(
        method=method,
        title=METHODS[method].row.title,
        tokens=sum(output.final_counts) / args.batch,
        bound=(embed + len(rows) * plain.macs(width)) / (embed + sum(block.macs(width) for block in rows)),
        all_operations=products[0] / products[1],
        cut=cutting.ratio,
        speed=timing.ratio,
        images_per_second=args.batch / timing.subject,
        own_share=max(0.0, 1.0 - timing.ratio / cutting.ratio),
        parameters=encoder.reducer.added_parameters(),
    )


def show(results: list[Result], title: str) -> None:
    """Prints the table."""
    table = Table(title=title)
    for column in (
        "method",
        "tokens",
        "FLOP bound",
        "all FLOPs",
        "cut only",
        "measured",
        "of bound",
        "own time",
        "images/s",
        "added",
    ):
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in results:
        table.add_row(
            row.title,
            f"{row.tokens:.1f}",
            f"x{row.bound:.2f}",
            f"x{row.all_operations:.2f}",
            f"x{row.cut:.2f}",
            f"x{row.speed:.2f}",
            f"{row.speed / row.bound:.0%}",
            f"{row.own_share:.0%}",
            f"{row.images_per_second:.1f}",
            f"{row.parameters:,}",
        )
    Console(width=120).print(table)


def main() -> None:
    built = [name for name in METHODS if name != DENSE and module_exists(f"tap.reducers.{name}")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", metavar="method", help=f"all of {', '.join(built)} if none is named")
    parser.add_argument("--model", default="vit_base_patch16_224.mae", help="timm's name; a small one for a quick try")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], help="fp32 on a CPU, bf16 on a GPU")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--rate", type=float, default=0.5, help="final keep rate")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=9)
    parser.add_argument("--json", type=Path, help="where to write the results as well")
    args = parser.parse_args()
    unknown = sorted(set(args.methods) - set(built))
    if unknown:
        parser.error(f"unknown method {', '.join(unknown)}; choose from {', '.join(built)}")
    device = torch.device(args.device)
    args.dtype = args.dtype or ("fp32" if device.type == "cpu" else "bf16")
    torch.set_num_threads(args.threads)
    results = []
    for method in args.methods or built:
        print(method, "...", file=sys.stderr, flush=True)
        results.append(measure(method, args, device))
    about = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        "threads": args.threads if device.type == "cpu" else 0,
        "batch": args.batch,
        "dtype": args.dtype,
        "kernel": kernel_name(device, torch.bfloat16 if args.dtype == "bf16" else torch.float32),
        "keep_rate": args.rate,
        "iterations": args.iterations,
        "torch": torch.__version__,
    }
    show(results, f"{args.model}, {SIDE} px, " + ", ".join(f"{name} {value}" for name, value in about.items()))
    if args.json is not None:
        args.json.write_text(json.dumps({"about": about, "methods": [asdict(row) for row in results]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
