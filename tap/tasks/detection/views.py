"""What labelled objects and detections look like on an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from pycocotools.mask import decode

from tap.config.schema import JobSpec
from tap.tasks.base import Sample
from tap.tasks.detection.data_transforms import Place, coco_of
from tap.tasks.pictures import hues, pixels_of
from tap.tasks.view import View, bytes_of

TINT: Final = 0.35
"""How much of an object's colour its mask puts over the image."""
_SHOWN_SCORE: Final = 0.3
"""Detections that score less are not shown."""


@dataclass(frozen=True)
class Shown:
    """A box (left, top, right, bottom), a mask `(H, W)` and a class."""

    box: tuple[float, ...]
    mask: NDArray[np.bool_]
    label: int


def pixels(spec: JobSpec, sample: Sample) -> NDArray:
    """The resized image without its padding `(H, W, 3)`, in [0, 1]."""
    height, width = sample.target.meta["img_shape"]
    return pixels_of(sample.image, spec)[:height, :width]


def truth(spec: JobSpec, dataset: Any, sample: Sample) -> View:
    """The labelled objects of an image, but crowd regions."""
    return _view(spec, sample, labelled(sample.target))


def predicted(model: Any, spec: JobSpec, dataset: Any, sample: Sample, device: torch.device) -> View:
    """What a model finds on an image."""
    return _view(spec, sample, found(model, sample, device))


def interest(sample: Sample) -> float:
    """How much there is to see: the number of objects."""
    return len(_uncrowded(sample.target))


def found(model: Any, sample: Sample, device: torch.device) -> list[Shown]:
    """Detections that score at least 0.3, at the size at which the image is shown."""
    place: Place = sample.target
    # In the coordinates of the resized image, which is what is shown.
    meta = place.meta | {"ori_shape": place.meta["img_shape"], "scale_factor": (1.0, 1.0)}
    with torch.inference_mode():
        ids = torch.tensor([sample.sample_id], device=device)
        instances = model.find(sample.image[None].to(device), [meta], ids).instances[0].cpu()
    parts = zip(instances.bboxes, instances.masks, instances.labels, instances.scores, strict=True)
    return [
        Shown(tuple(box.tolist()), mask.numpy(), int(label))
        for box, mask, label, score in parts
        if score >= _SHOWN_SCORE
    ]


def labelled(place: Place) -> list[Shown]:
    """The image's objects, brought to the size at which it is shown."""
    height, width = place.meta["ori_shape"]
    across, down = place.meta["scale_factor"]
    rows, columns = (np.arange(side) for side in place.meta["img_shape"])
    nearest = np.ix_(
        np.minimum((rows / down).astype(int), height - 1), np.minimum((columns / across).astype(int), width - 1)
    )
    entries = [entry | {"image_id": 0} for entry in _uncrowded(place)]
    api = coco_of({"images": [{"id": 0, "height": height, "width": width}], "annotations": entries, "categories": []})
    objects = []
    for entry in entries:
        left, top, wide, high = entry["bbox"]
        box = (left * across, top * down, (left + wide) * across, (top + high) * down)
        objects.append(Shown(box, decode(api.annToRLE(entry))[nearest].astype(bool), entry["category_id"]))
    return objects


def _uncrowded(place: Place) -> list[dict[str, Any]]:
    return [entry for entry in place.objects if not entry.get("iscrowd", 0)]


def _view(spec: JobSpec, sample: Sample, objects: Sequence[Shown]) -> View:
    """The image under the masks, and the boxes."""
    picture, colours = pixels(spec, sample), np.array(hues(spec.data.num_classes))
    for one in objects:
        picture = np.where(one.mask[..., None], (1 - TINT) * picture + TINT * colours[one.label], picture)
    return View(
        bytes_of(picture),
        np.array([one.box for one in objects]).reshape(-1, 4),
        colours[[one.label for one in objects]].reshape(-1, 3),
        f"{len(objects)} object{'' if len(objects) == 1 else 's'}",
    )
