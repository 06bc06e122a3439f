"""A picture by which a person can check a run: image, objects, detections and kept patches of a few images."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from tap.config.schema import JobSpec
from tap.plan.runs import run_of
from tap.tasks.base import Sample
from tap.tasks.detection.data import open_splits
from tap.tasks.detection.data_transforms import Place
from tap.tasks.detection.model import Detector
from tap.tasks.detection.views import TINT, Shown, found, interest, labelled, pixels
from tap.tasks.pictures import hues, kept_patches, kept_title, save

_LOOKED_AT = 20
"""Images of a stretch among which the one to show is chosen."""
_MOST_NAMES = 12
"""Classes up to which a legend names them."""


@dataclass(frozen=True)
class _Row:
    """What is shown of one image; pixels `(H, W, 3)` in [0, 1]."""

    name: str
    image: np.ndarray
    kept: np.ndarray
    kept_title: str
    truth: list[Shown]
    found: list[Shown]


def draw(model: Detector, spec: JobSpec, path: Path | str, device: torch.device, count: int = 6) -> Path:
    """Writes the picture as PNG; the same model and data give the same bytes.

    Crowd regions are not drawn, nor detections that score less than 0.3.

    Args:
        model: trained, on `device`.
        spec: the run.
        path: where to.
        device: where to compute.
        count: images, spread over the validation split; of each stretch, one with many objects.
    """
    model.eval()
    dataset: Any = open_splits(spec).validation
    rows = [_row(model, spec, dataset, index, device) for index in _choose(dataset, count)]
    names = dataset.metainfo["classes"]
    colours = hues(len(names))
    figure = Figure(figsize=(8.4, 2.1 * len(rows) + 0.9), layout="constrained")
    for row, line in zip(rows, figure.subplots(len(rows), 4, squeeze=False), strict=True):
        titles = (row.name, f"{len(row.truth)} objects", f"{len(row.found)} detections", row.kept_title)
        for axis, title in zip(line, titles, strict=True):
            axis.imshow(row.kept if axis is line[-1] else row.image, interpolation="nearest")
            axis.set_title(title, fontsize=7)
            axis.set_axis_off()
        for axis, objects in ((line[1], row.truth), (line[2], row.found)):
            _outline(axis, objects, colours)
    figure.suptitle(f"{run_of(spec).id}: validation images", fontsize=9)
    if len(names) <= _MOST_NAMES:
        patches = [Patch(color=colour, label=name) for colour, name in zip(colours, names, strict=True)]
        figure.legend(handles=patches, loc="outside lower center", ncols=3, fontsize=7)
    return save(figure, path)


def _choose(dataset: Any, count: int) -> list[int]:
    """One image of each of `count` equal stretches of the split."""
    borders = np.linspace(0, len(dataset), min(count, len(dataset)) + 1).astype(int)
    stretches = [range(start, stop)[:_LOOKED_AT] for start, stop in pairwise(borders)]
    return [max(stretch, key=lambda index: interest(dataset[index])) for stretch in stretches]


def _row(model: Detector, spec: JobSpec, dataset: Any, index: int, device: torch.device) -> _Row:
    sample: Sample = dataset[index]
    images, ids = sample.image[None].to(device), torch.tensor([sample.sample_id], device=device)
    place: Place = sample.target
    with torch.inference_mode():
        trace = model.encoder(images, ids, return_trace=True).trace
    assert trace is not None
    shown = pixels(spec, sample)
    return _Row(
        Path(dataset.get_data_info(index)["img_path"]).stem,
        shown,
        kept_patches(shown, trace, model.encoder.vit.patch_embed.patch_size),
        kept_title(trace),
        labelled(place),
        found(model, sample, device),
    )


def _outline(axis: Axes, objects: list[Shown], colours: list[tuple[float, float, float]]) -> None:
    """Box and mask of each object in the colour of its class."""
    for one in objects:
        left, top, right, bottom = one.box
        colour = colours[one.label]
        axis.add_patch(Rectangle((left - 0.5, top - 0.5), right - left, bottom - top, fill=False, color=colour, lw=0.7))
        tint = np.dstack([np.broadcast_to(colour, (*one.mask.shape, 3)), TINT * one.mask])
        axis.imshow(tint, interpolation="nearest")
