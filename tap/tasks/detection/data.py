"""Detection data: COCO's annotation files and images, read by MMDetection's dataset class and transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tap.config.data import DataConfig
from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.tasks.base import Batch, Item, Sample, Splits, batch_places, batch_seed, seeded_rng, split_item
from tap.tasks.detection.annotations import Content, read_annotations, without_objects
from tap.tasks.detection.data_transforms import TRANSFORMS, CocoDataset, LoadListedImage, PackImage, coco_of
from tap.tasks.microscopy.places import places_of
from tap.tasks.openmmlab import named_in
from tap.tasks.subsets import balanced

_PREPARED = {
    "train": ("coco/instances_training.json", "images/training"),
    "calibration": ("coco/instances_calibration.json", "images/calibration"),
    "validation": ("coco/instances_validation.json", "images/validation"),
}
_FILES = {
    "fashion_scenes": _PREPARED,
    "microscopy": _PREPARED,
    "coco": {
        "train": ("annotations/instances_train2017.json", "train2017"),
        "validation": ("annotations/instances_val2017.json", "val2017"),
    },
}
"""Annotation file and folder of images of each split, below `data.root`."""


class DetectionSplit(CocoDataset):
    """One split in COCO's format; `dataset[Item(index, seed)]` in training, `dataset[index]` in evaluation.

    Sample ids number all images of the annotation file in its order. `PackImage` says what the targets are.

    Args:
        content: the annotation file.
        numbers: sample ids of the images to show, ascending.
        train: whether items carry the augmentation's seed.
        place_of: from an image's name to the number of what it is a view of; None where images stand for themselves.
        kwargs: as MMDetection's class takes them.
    """

    def __init__(
        self,
        content: Content,
        numbers: Sequence[int],
        train: bool,
        place_of: Callable[[str], int] | None = None,
        **kwargs: Any,
    ) -> None:
        self.train = train
        stems = [Path(image["file_name"]).stem for image in content["images"]] if place_of is not None else []
        self._places = None if place_of is None else {number: place_of(stems[number]) for number in numbers}
        self._numbers = frozenset(numbers)
        api = coco_of(content)
        self._truth = dict(api.imgToAnns)
        self.COCOAPI = lambda _: api
        super().__init__(ann_file="", **kwargs)
        # Loading processes get a copy of this object, which the function cannot be part of, and the rest is not read.
        del self.COCOAPI, self._truth

    def load_data_list(self) -> list[dict]:
        """The file's images, numbered."""
        entries = super().load_data_list()
        classes = {category: number for number, category in enumerate(self.cat_ids)}
        for number, entry in enumerate(entries):
            entry["sample_id"] = number
            if not self.train:
                objects = self._truth.get(entry["img_id"], [])
                entry["objects"] = tuple(one | {"category_id": classes[one["category_id"]]} for one in objects)
        return entries

    def filter_data(self) -> list[dict]:
        """The images to show."""
        return [entry for entry in self.data_list if entry["sample_id"] in self._numbers]

    def __getitem__(self, item: Item | int) -> Sample:
        index, seed = split_item(item, self.train, len(self))
        if seed is None:
            packed = self.prepare_data(index)
            number = packed["sample_id"]
            place = None if self._places is None else self._places[number]
            return Sample(packed["image"], packed["target"], number, place=place)
        with seeded_rng(seed):
            packed = self.prepare_data(index)
        return Sample(packed["image"], packed["target"], packed["sample_id"], seed)


def open_splits(spec: JobSpec) -> Splits:
    """Train, calibration and validation split of the spec's dataset.

    What the workflow prepares comes with a calibration split, of which `data.calibration` images are used; COCO's are
    cut from the training images by a draw that depends on the dataset alone. Images without objects are left out of
    training, as MMDetection's settings for COCO do. Limits take microscopy tiles of all recordings.

    Raises:
        UserError: data missing, not prepared or wrong, or settings that do not fit it.
    """
    data, root = spec.data, Path(spec.data.root)
    if data.name not in _FILES:
        raise UserError(f"data.name: '{data.name}' is not a detection dataset; use {', '.join(_FILES)}")
    if len(data.mean) != spec.model.channels:
        raise UserError(f"data.mean: {len(data.mean)} values for model.channels {spec.model.channels}; give as many")
    if _FILES[data.name] is _PREPARED and not (root / "manifest.json").is_file():
        raise UserError(f"{root}: not prepared; run `tap data prepare det` first")
    contents = {split: _read(root / file, data) for split, (file, _) in _FILES[data.name].items()}
    training, validation = contents["train"], contents["validation"]
    for content, (file, _) in zip(contents.values(), _FILES[data.name].values(), strict=True):
        if _classes(content) != _classes(training):
            raise UserError(
                f"{root / file}: numbers other categories than {_FILES[data.name]['train'][0]}, or in another order; "
                "take both files from one source"
            )
    held_out = contents.get("calibration", training)
    groups = {id(content): _groups(content, data) for content in contents.values()}
    calibration = balanced(groups[id(held_out)], data.calibration, data.name, "calibration")
    rest = np.arange(len(training["images"]))
    if held_out is training:
        rest = np.setdiff1d(rest, calibration)
    empty = without_objects(training)
    rest = rest[[training["images"][number]["id"] not in empty for number in rest]]
    if not len(rest):
        raise UserError(f"{root}: no training image with an object is left; check data.calibration and the annotations")
    if data.limit_train is not None:
        rest = rest[balanced(groups[id(training)][rest], data.limit_train, data.name, "limit_train")]
    shown = np.arange(len(validation["images"]))
    if data.limit_val is not None:
        shown = balanced(groups[id(validation)], data.limit_val, data.name, "limit_val")
    source = "calibration" if "calibration" in contents else "train"
    return Splits(
        train=_split(spec, training, "train", rest, train=True),
        calibration=_split(spec, held_out, source, calibration, train=False),
        validation=_split(spec, validation, "validation", shown, train=False),
    )


def train_pipeline(spec: JobSpec) -> list[Any]:
    """Large-scale jittering, crop and flip, as the spec's augmentation says."""
    size, augment = spec.model.image_size, spec.train.augment
    steps: list[Any] = [
        LoadListedImage(),
        {"type": "LoadAnnotations", "with_bbox": True, "with_mask": True},
        {
            "type": "RandomResize",
            "resize_type": "mmdet.Resize",  # by default MMCV's own, which knows no masks
            "scale": (size, size),
            "ratio_range": augment.scale_range,
            "keep_ratio": True,
        },
        {
            "type": "RandomCrop",
            "crop_type": "absolute",
            "crop_size": (size, size),
            "recompute_bbox": True,
            "allow_negative_crop": True,
        },
        {"type": "FilterAnnotations", "min_gt_bbox_wh": (1e-2, 1e-2), "by_mask": True, "keep_empty": False},
    ]
    if augment.hflip > 0:
        steps.append({"type": "RandomFlip", "prob": augment.hflip})
    return [*steps, PackImage(spec.data.mean, spec.data.std, size, objects=True)]


def eval_pipeline(spec: JobSpec) -> list[Any]:
    """The whole image, its longest side brought to the model's size."""
    size = spec.model.image_size
    return [
        LoadListedImage(),
        {"type": "Resize", "scale": (size, size), "keep_ratio": True},
        PackImage(spec.data.mean, spec.data.std, size, objects=False),
    ]


class Collate:
    """Makes batches; targets stay a list."""

    def __call__(self, samples: Sequence[Sample]) -> Batch:
        """The batch of `samples`."""
        ids = torch.tensor([sample.sample_id for sample in samples], dtype=torch.int64)
        targets = [sample.target for sample in samples]
        images = torch.stack([sample.image for sample in samples])
        return Batch(images, targets, ids, batch_seed(samples), batch_places(samples))


def _read(path: Path, data: DataConfig) -> Content:
    """An annotation file that fits the settings."""
    content = read_annotations(path)
    names = [category["name"] for category in content["categories"]]
    if len(names) != data.num_classes:
        raise UserError(f"data.num_classes: {path} has {len(names)} categories, not {data.num_classes}")
    if not content["images"]:
        raise UserError(f"{path}: lists no image; get it again")
    return content


def _classes(content: Content) -> list[tuple[int, str]]:
    """Ids and names of the categories in the order that numbers the classes."""
    return [(category["id"], category["name"]) for category in content["categories"]]


def _split(spec: JobSpec, content: Content, split: str, numbers: np.ndarray, train: bool) -> DetectionSplit:
    steps = train_pipeline(spec) if train else eval_pipeline(spec)
    with named_in("mmdet"):
        pipeline = [TRANSFORMS.build(step) if isinstance(step, dict) else step for step in steps]
    return DetectionSplit(
        content,
        numbers.tolist(),
        train,
        places_of(spec.data),
        data_root=spec.data.root,
        data_prefix={"img": _FILES[spec.data.name][split][1]},
        metainfo={"classes": tuple(category["name"] for category in content["categories"])},
        serialize_data=spec.data.name == "coco",  # saves memory for millions of objects, costs half a second otherwise
        pipeline=pipeline,
    )


def _groups(content: Content, data: DataConfig) -> np.ndarray:
    """What limits and calibration are balanced over: the recordings of microscopy; all else is one group."""
    names = [image["file_name"] for image in content["images"]]
    return np.array([name.split("_")[0] for name in names]) if data.name == "microscopy" else np.zeros(len(names))
