"""What trained methods keep of a few validation images, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tap.config.methods import TAP
from tap.config.schema import JobSpec
from tap.encoder.sparse_vit import EncoderOutput
from tap.engine.device import cpu_threads, select_device
from tap.engine.run_weights import load_run
from tap.errors import UserError
from tap.plan.runs import run_of
from tap.plan.shown_runs import PICTURED
from tap.studies.pictured import Pictured
from tap.studies.picturing import Picturing, pointers_of
from tap.tasks.base import Sample
from tap.tasks.pictures import pixels_of
from tap.tasks.registry import get_task
from tap.tasks.view import bytes_of

IMAGES = 6
"""Validation images that are shown, spread over the split."""


@dataclass(frozen=True)
class ShownImage:
    """An image.

    Attributes:
        number: its place in the validation split.
        pixels: `(H, W, 3)` uint8, as the encoder sees it, without the normalisation.
        grid: patch rows and columns.
    """

    number: int
    pixels: np.ndarray
    grid: tuple[int, int]


@dataclass(frozen=True)
class KeptByMethod:
    """What one run keeps.

    Attributes:
        method: its method.
        run: its id.
        kept: of each image, by reducing block from 1, which patches are left after it `(N,)`, bool.
        merges: whether a kept patch stands for the ones that were merged into it.
    """

    method: str
    run: str
    kept: tuple[dict[int, np.ndarray], ...]
    merges: bool


@dataclass(frozen=True)
class KeptPatches:
    """What the methods of a task keep of the same images.

    Attributes:
        task: the task.
        blocks: depth of the encoder.
        keep_rate: final keep rate of all runs.
        images: the images.
        methods: in the order of the tables.
        pictured: one of the images under the methods of the paper's figure.
        read: files of weights.
    """

    task: str
    blocks: int
    keep_rate: float
    images: tuple[ShownImage, ...]
    methods: tuple[KeptByMethod, ...]
    pictured: Pictured
    read: tuple[Path, ...]


def kept_patches(specs: Sequence[JobSpec], count: int = IMAGES) -> KeptPatches:
    """Passes a few whole images through the encoder of each run.

    Args:
        specs: trained runs of one task.
        count: images, spread over the validation split.

    Raises:
        UserError: no run is given, one is not trained, or the split has no image.
    """
    if not specs:
        raise UserError("kept: the scale has no method beside no pruning for this task, so nothing is removed")
    first = specs[0]
    task, device = get_task(first), select_device(first.device)
    dataset: Any = task.datasets(first).validation
    if not len(dataset):
        raise UserError(f"{first.data.root}: the validation split has no image; check data.limit_val")
    places = np.unique(np.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().astype(int))
    samples: list[Sample] = [dataset[int(place)] for place in places]
    picturing = Picturing(task.facts, first, dataset)
    place = picturing.choose(samples)
    chosen, under = samples[place], {}
    methods, read, blocks, pointers = [], list[Path](), 0, None
    grids: list[tuple[int, int]] = []
    with cpu_threads(first.eval.threads), torch.inference_mode():
        for spec in specs:
            model: Any = task.build_model(spec)
            read += load_run(spec, model)
            encoder = model.to(device).eval().encoder
            outputs = [_pass(encoder, sample, device) for sample in samples]
            traces: list[Any] = [output.trace for output in outputs]
            blocks, grids = len(encoder.vit.blocks), [trace.grid for trace in traces]
            methods.append(
                KeptByMethod(
                    spec.method,
                    run_of(spec).id,
                    tuple({layer: kept[0].cpu().numpy() for layer, kept in trace.kept.items()} for trace in traces),
                    any(trace.holder for trace in traces),
                )
            )
            if spec.method in PICTURED:
                under[spec.method] = picturing.under(model, spec, chosen, outputs[place], device)
            if spec.method == TAP:
                pointers = pointers_of(outputs[place])
    images = [
        ShownImage(int(sample.sample_id), bytes_of(pixels_of(sample.image, first)), grid)
        for sample, grid in zip(samples, grids, strict=True)
    ]
    pictured = Pictured(
        int(chosen.sample_id),
        picturing.pixels(chosen),
        encoder.vit.patch_embed.patch_size,
        picturing.truth(chosen),
        tuple(under[name] for name in PICTURED if name in under),
        pointers,
    )
    unique = tuple(dict.fromkeys(read))
    return KeptPatches(first.task, blocks, first.rate, tuple(images), tuple(methods), pictured, unique)


def _pass(encoder: Any, sample: Sample, device: torch.device) -> EncoderOutput:
    """A pass over one image alone, with its trace: images of a split may differ in size."""
    ids = torch.tensor([sample.sample_id], device=device)
    return encoder(sample.image[None].to(device), ids, return_trace=True)
