"""Segmentation data: ADE20K's folder layout, read by MMSegmentation's dataset class and transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tap.config.data import DataConfig
from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.tasks.base import Batch, Item, Sample, Splits, batch_places, batch_seed, seeded_rng, split_item
from tap.tasks.microscopy.frames import CLASSES
from tap.tasks.microscopy.places import places_of
from tap.tasks.openmmlab import DATASETS, TRANSFORMS, BaseSegDataset, named_in
from tap.tasks.segmentation import data_transforms  # noqa: F401  registers ours
from tap.tasks.subsets import balanced

_IMAGE_SUFFIX = {"microscopy": ".png", "ade20k": ".jpg"}
_LONGEST_SIDE = 4
"""Longest side of a resized image over its shortest one (MMSegmentation's ADE20K setting: 2048 to 512)."""

_LARGEST_CLASS_SHARE = {"microscopy": 1.0, "ade20k": 0.75}
"""A crop in which one class has more is drawn again, up to ten times; microscopy is mostly background everywhere."""


@dataclass(frozen=True)
class Target:
    """Truth of an evaluation image.

    Attributes:
        labels: (H, W) uint8 at the original size; void is 255.
        size: height and width of the resized image without its padding: what to crop from a prediction before it is
            brought to the size of `labels`.
    """

    labels: Tensor
    size: tuple[int, int]


@DATASETS.register_module(name="TapSegmentation")
class SegmentationSplit(BaseSegDataset):
    """One split in ADE20K's layout; `dataset[Item(index, seed)]` in training, `dataset[index]` in evaluation.

    A training sample's target is the (H, W) uint8 label map of the crop, an evaluation sample's a `Target`. Sample ids
    number the folder's images in the order of their names.

    Args:
        names: the folder's images without suffix, in order; its own list would take hidden files and folders otherwise.
        train: whether items carry the augmentation's seed.
        place_of: from an image's name to the number of what it is a view of; None where images stand for themselves.
        kwargs: as MMSegmentation's base class takes them.
    """

    def __init__(
        self,
        names: Sequence[str],
        train: bool = False,
        place_of: Callable[[str], int] | None = None,
        **kwargs: Any,
    ) -> None:
        self._names = names
        self._place_of = place_of
        self.train = train
        super().__init__(reduce_zero_label=True, **kwargs)

    def load_data_list(self) -> list[dict]:
        """The folder's images, numbered."""
        return [
            {
                "img_path": f"{self.data_prefix['img_path']}/{name}{self.img_suffix}",
                "seg_map_path": f"{self.data_prefix['seg_map_path']}/{name}{self.seg_map_suffix}",
                "label_map": self.label_map,
                "reduce_zero_label": self.reduce_zero_label,
                "seg_fields": [],
                "sample_id": number,
            }
            for number, name in enumerate(self._names)
        ]

    def __getitem__(self, item: Item | int) -> Sample:
        index, seed = split_item(item, self.train, len(self))
        if seed is None:
            packed = self.prepare_data(index)
            target = Target(packed["labels"], packed["size"])
            number = packed["sample_id"]
            place = None if self._place_of is None else self._place_of(self._names[number])
            return Sample(packed["image"], target, number, place=place)
        with seeded_rng(seed):
            packed = self.prepare_data(index)
        return Sample(packed["image"], packed["labels"], packed["sample_id"], seed)

    @property
    def names(self) -> list[str]:
        """File names of the split's images, without suffix."""
        return [Path(self.get_data_info(i)["img_path"]).stem for i in range(len(self))]


def open_splits(spec: JobSpec) -> Splits:
    """Train, calibration and validation split of the spec's dataset.

    Microscopy comes with a calibration folder, of which `data.calibration` tiles are used; ADE20K's calibration images
    are cut from the training ones by a draw that depends on the dataset alone. Limits take tiles of all recordings.

    Raises:
        UserError: data missing, not prepared or without label maps, or settings that do not fit it.
    """
    data = spec.data
    if data.name not in _IMAGE_SUFFIX:
        raise UserError(f"data.name: '{data.name}' is not a segmentation dataset; use microscopy or ade20k")
    if len(data.mean) != spec.model.channels:
        raise UserError(f"data.mean: {len(data.mean)} values for model.channels {spec.model.channels}; give as many")
    root = Path(data.root)
    if data.name == "microscopy" and not (root / "manifest.json").is_file():
        raise UserError(f"{root}: not prepared; run `tap data prepare seg` first")
    training, validation = (_stems(root, folder, data) for folder in ("training", "validation"))
    if data.name == "microscopy":
        held_out = _stems(root, "calibration", data)
        drawn = balanced(_groups(held_out, data), data.calibration, data.name, "calibration")
        calibration = "calibration", held_out, drawn
        rest = np.arange(len(training))
    else:
        cut = balanced(_groups(training, data), data.calibration, data.name, "calibration")
        calibration = "training", training, cut
        rest = np.setdiff1d(np.arange(len(training)), cut)
        if not len(rest):
            raise UserError(f"data.calibration: {data.calibration} leaves none of {len(training)} training images")
    if data.limit_train is not None:
        rest = rest[balanced(_groups(training, data)[rest], data.limit_train, data.name, "limit_train")]
    shown = np.arange(len(validation))
    if data.limit_val is not None:
        shown = balanced(_groups(validation, data), data.limit_val, data.name, "limit_val")
    return Splits(
        train=_split(spec, "training", training, rest, train=True),
        calibration=_split(spec, *calibration, train=False),
        validation=_split(spec, "validation", validation, shown, train=False),
    )


def train_pipeline(spec: JobSpec) -> list[dict[str, Any]]:
    """Random scale, crop, flip and photometric distortion, as the spec's augmentation says."""
    size, augment = spec.model.image_size, spec.train.augment
    steps: list[dict[str, Any]] = [
        {"type": "TapLoadImage"},
        {"type": "TapLoadLabels", "num_classes": spec.data.num_classes},
        {
            "type": "RandomResize",
            "scale": (_LONGEST_SIDE * size, size),
            "ratio_range": augment.scale_range,
            "keep_ratio": True,
        },
        {"type": "RandomCrop", "crop_size": (size, size), "cat_max_ratio": _LARGEST_CLASS_SHARE[spec.data.name]},
    ]
    if augment.hflip > 0:
        steps.append({"type": "RandomFlip", "prob": augment.hflip})
    if augment.photometric:
        steps.append({"type": "PhotoMetricDistortion"})
    return [*steps, _packing(spec, size, pad_labels=True)]


def eval_pipeline(spec: JobSpec) -> list[dict[str, Any]]:
    """The whole image, its short side brought to the model's size (and to a crop at least, for sliding windows)."""
    size = spec.model.image_size
    return [
        {"type": "TapLoadImage"},
        {"type": "Resize", "scale": (_LONGEST_SIDE * size, size), "keep_ratio": True},
        {"type": "TapLoadLabels", "num_classes": spec.data.num_classes},  # after it: labels keep their size
        _packing(spec, size if spec.eval.inference == "slide" else None, pad_labels=False),
    ]


class Collate:
    """Makes batches: training targets are (B, H, W) int64, evaluation targets a list of `Target`."""

    def __init__(self, train: bool) -> None:
        self.train = train

    def __call__(self, samples: Sequence[Sample]) -> Batch:
        """The batch of `samples`.

        Raises:
            UserError: evaluation images of different sizes. Padding them to one size would let a result depend on its
                batch mates.
        """
        sizes = {tuple(sample.image.shape[1:]) for sample in samples}
        if len(sizes) > 1:
            raise UserError(f"eval.batch_size: images of {len(sizes)} sizes cannot share a batch; set it to 1")
        targets: Any = [sample.target for sample in samples]
        if self.train:
            targets = torch.stack(targets).long()
        ids = torch.tensor([sample.sample_id for sample in samples], dtype=torch.int64)
        images = torch.stack([sample.image for sample in samples])
        return Batch(images, targets, ids, batch_seed(samples), batch_places(samples))


def _packing(spec: JobSpec, size: int | None, pad_labels: bool) -> dict[str, Any]:
    return {
        "type": "TapPackSample",
        "mean": spec.data.mean,
        "std": spec.data.std,
        "size": size,
        "multiple": spec.model.patch_size,
        "pad_labels": pad_labels,
    }


def _split(spec: JobSpec, folder: str, names: np.ndarray, indices: np.ndarray, train: bool) -> Any:
    pipeline = train_pipeline(spec) if train else eval_pipeline(spec)
    settings = {
        "type": "TapSegmentation",
        "names": names.tolist(),
        "train": train,
        "place_of": places_of(spec.data),
        "data_root": spec.data.root,
        "data_prefix": {"img_path": f"images/{folder}", "seg_map_path": f"annotations/{folder}"},
        "img_suffix": _IMAGE_SUFFIX[spec.data.name],
        "seg_map_suffix": ".png",
        "metainfo": {"classes": _class_names(spec.data)},
        "indices": indices.tolist(),
        "serialize_data": False,  # saves memory for millions of entries and costs half a second of collection
    }
    with named_in("mmseg"):
        return DATASETS.build(settings | {"pipeline": [TRANSFORMS.build(step) for step in pipeline]})


def _class_names(data: DataConfig) -> tuple[str, ...]:
    if data.name == "microscopy":
        if data.num_classes != len(CLASSES):
            raise UserError(f"data.num_classes: microscopy has {len(CLASSES)} classes, not {data.num_classes}")
        return CLASSES
    return tuple(DATASETS.get("ADE20KDataset").METAINFO["classes"])[: data.num_classes]


def _stems(root: Path, folder: str, data: DataConfig) -> np.ndarray:
    """Names of a split's images, sorted; without hidden files and what lies in folders.

    Raises:
        UserError: no images, or an image without a label map.
    """
    suffix = _IMAGE_SUFFIX[data.name]
    images, maps = root / "images" / folder, root / "annotations" / folder
    stems = sorted(path.name.removesuffix(suffix) for path in images.glob(f"[!.]*{suffix}") if path.is_file())
    if not stems:
        raise UserError(f"{images}: no {suffix} images; data.root must hold ADE20K's `images` and `annotations`")
    known = {path.stem for path in maps.glob("*.png")}
    missing = [stem for stem in stems if stem not in known]
    if missing:
        raise UserError(
            f"{maps / missing[0]}.png: missing, like {len(missing) - 1} more; every image needs a label map"
        )
    return np.array(stems)


def _groups(stems: np.ndarray, data: DataConfig) -> np.ndarray:
    """What limits and calibration are balanced over: the recordings; ADE20K has one group."""
    return np.array([stem.split("_")[0] for stem in stems]) if data.name == "microscopy" else np.zeros(len(stems))
