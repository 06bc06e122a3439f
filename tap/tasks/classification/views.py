"""What the class of an image and a predicted one look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tap.config.schema import JobSpec
from tap.tasks.base import Sample
from tap.tasks.classification.data import ImageSource
from tap.tasks.classification.fashion import CLASSES
from tap.tasks.classification.imagenet import ImageFolder
from tap.tasks.pictures import pixels_of
from tap.tasks.view import View, bytes_of


def pixels(spec: JobSpec, sample: Sample) -> NDArray:
    """The image `(H, W, 3)`, in [0, 1]."""
    return pixels_of(sample.image, spec)


def truth(spec: JobSpec, dataset: Any, sample: Sample) -> View:
    """The name of the class."""
    return View(bytes_of(pixels(spec, sample)), words=_name(dataset.source, sample.target))


def predicted(model: Any, spec: JobSpec, dataset: Any, sample: Sample, device: torch.device) -> View:
    """The name of the top class, and its probability."""
    with torch.inference_mode():
        logits = model(sample.image[None].to(device), torch.tensor([sample.sample_id], device=device))
    share, number = logits.double().softmax(dim=1)[0].max(dim=0)
    words = f"{_name(dataset.source, int(number))} ({100 * float(share):.0f} %)"
    return View(bytes_of(pixels(spec, sample)), words=words)


def interest(sample: Sample) -> float:
    """The same of all images, which have one object each."""
    return 0.0


def _name(source: ImageSource, number: int) -> str:
    """What the data set calls a class: ImageNet by its folder."""
    if isinstance(source, ImageFolder):
        return Path(source.files[int(np.argmax(source.labels == number))]).parent.name
    return CLASSES[number]
