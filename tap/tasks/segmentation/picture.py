"""A picture by which a person can check a run: image, label, prediction and kept patches of a few validation images."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tap.config.schema import JobSpec
from tap.plan.runs import run_of
from tap.tasks.base import Sample
from tap.tasks.pictures import kept_patches, kept_title, save
from tap.tasks.segmentation.data import open_splits
from tap.tasks.segmentation.inference import predict
from tap.tasks.segmentation.model import Segmenter
from tap.tasks.segmentation.views import VOID_COLOUR, coloured, interest, palette, pixels

_LOOKED_AT = 20
"""Images of a stretch among which the one to show is chosen."""
_MOST_NAMES = 12
"""Classes up to which a legend names them."""


@dataclass(frozen=True)
class _Row:
    """What is shown of one image: pixels `(H, W, 3)` in [0, 1] and label maps."""

    name: str
    image: np.ndarray
    kept: np.ndarray
    labels: np.ndarray
    prediction: np.ndarray
    kept_title: str


def draw(model: Segmenter, spec: JobSpec, path: Path | str, device: torch.device, count: int = 6) -> Path:
    """Writes the picture as PNG; the same model and data give the same bytes.

    Kept patches are those of one pass over the whole image, also where inference slides.

    Args:
        model: trained, on `device`.
        spec: the run.
        path: where to.
        device: where to compute.
        count: images, spread over the validation split; of each stretch, one with much to see.
    """
    model.eval()
    dataset: Any = open_splits(spec).validation
    rows = [_row(model, spec, dataset, index, device) for index in _choose(dataset, count)]
    names = dataset.metainfo["classes"]
    figure = Figure(figsize=(8.4, 2.1 * len(rows) + 0.9), layout="constrained")
    axes = figure.subplots(len(rows), 4, squeeze=False)
    for row, line in zip(rows, axes, strict=True):
        pictures = (row.image, coloured(row.labels, len(names)), coloured(row.prediction, len(names)), row.kept)
        for axis, picture, title in zip(line, pictures, (row.name, "label", "prediction", row.kept_title), strict=True):
            axis.imshow(picture, interpolation="nearest")
            axis.set_title(title, fontsize=7)
            axis.set_axis_off()
    figure.suptitle(f"{run_of(spec).id}: validation images", fontsize=9)
    if len(names) <= _MOST_NAMES:
        patches = [Patch(color=colour, label=name) for colour, name in zip(palette(len(names)), names, strict=True)]
        patches.append(Patch(color=VOID_COLOUR, label="void"))
        figure.legend(handles=patches, loc="outside lower center", ncols=3, fontsize=7)
    return save(figure, path)


def _choose(dataset: Any, count: int) -> list[int]:
    """One image of each of `count` equal stretches of the split."""
    borders = np.linspace(0, len(dataset), min(count, len(dataset)) + 1).astype(int)
    stretches = [range(start, stop)[:_LOOKED_AT] for start, stop in pairwise(borders)]
    return [max(stretch, key=lambda index: interest(dataset[index])) for stretch in stretches]


def _row(model: Segmenter, spec: JobSpec, dataset: Any, index: int, device: torch.device) -> _Row:
    sample: Sample = dataset[index]
    images, ids = sample.image[None].to(device), torch.tensor([sample.sample_id], device=device)
    prediction = predict(model, images, ids, [sample.target])[0].labels.cpu().numpy()
    with torch.inference_mode():
        trace = model.encoder(images, ids, return_trace=True).trace
    assert trace is not None
    shown = pixels(spec, sample)
    return _Row(
        dataset.names[index],
        shown,
        kept_patches(shown, trace, model.encoder.vit.patch_embed.patch_size),
        sample.target.labels.numpy(),
        prediction,
        kept_title(trace),
    )
