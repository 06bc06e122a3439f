"""What a label map and a predicted one look like."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from tap.config.schema import JobSpec
from tap.tasks.base import Sample
from tap.tasks.pictures import hues, pixels_of
from tap.tasks.segmentation.data_transforms import IGNORE
from tap.tasks.segmentation.inference import predict
from tap.tasks.view import View, bytes_of

VOID_COLOUR: Final = (0.55, 0.55, 0.55)
_MOST_NAMES: Final = 2
"""Classes of a map up to which its words name them."""


def pixels(spec: JobSpec, sample: Sample) -> NDArray:
    """The resized image without its padding `(H, W, 3)`, in [0, 1]."""
    height, width = sample.target.size
    return pixels_of(sample.image, spec)[:height, :width]


def truth(spec: JobSpec, dataset: Any, sample: Sample) -> View:
    """The label map of an image."""
    return _view(sample.target.labels.numpy(), dataset)


def predicted(model: Any, spec: JobSpec, dataset: Any, sample: Sample, device: torch.device) -> View:
    """The label map that a model gives, in one pass or in sliding windows as in its evaluation."""
    ids = torch.tensor([sample.sample_id], device=device)
    (found,) = predict(model, sample.image[None].to(device), ids, [sample.target])
    return _view(found.labels.cpu().numpy(), dataset)


def interest(sample: Sample) -> float:
    """How much there is to see: the share of labelled pixels that are not of the most frequent class."""
    labels = sample.target.labels
    pixels = labels[labels != IGNORE].unique(return_counts=True)[1]
    return 1.0 - float(pixels.max() / pixels.sum()) if len(pixels) else 0.0


def _view(labels: NDArray, dataset: Any) -> View:
    names = dataset.metainfo["classes"]
    found = [names[number] for number in np.unique(labels[labels != IGNORE])]
    words = ", ".join(found) if len(found) <= _MOST_NAMES else f"{len(found)} classes"
    return View(bytes_of(coloured(labels, len(names))), words=words)


def palette(classes: int) -> NDArray:
    """(C, 3): black for the first class, then hues that are far apart for neighbouring numbers."""
    return np.array([(0.0, 0.0, 0.0), *hues(classes - 1)])


def coloured(labels: NDArray, classes: int) -> NDArray:
    """Label map as a picture `(H, W, 3)` in [0, 1]."""
    table = np.tile(np.array(VOID_COLOUR), (IGNORE + 1, 1))
    table[:classes] = palette(classes)
    return table[labels]
