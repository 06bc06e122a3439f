"""Classification data: splits, augmentation through timm, and batches with Mixup and CutMix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from timm.data import Mixup, create_transform
from timm.data.auto_augment import RandAugment
from torch import Tensor

from tap.config.data import DataConfig
from tap.config.model import ModelConfig
from tap.config.schema import AugmentConfig, JobSpec
from tap.errors import UserError
from tap.tasks.base import Batch, Item, Sample, Splits, batch_seed, seeded_rng, split_item
from tap.tasks.classification.fashion import FILES, IMAGE_SIZE, read_images, read_labels
from tap.tasks.classification.imagenet import open_folder
from tap.tasks.subsets import balanced

PADDED_SIZE = 32
"""Fashion-MNIST images get a black rim of two pixels, so that twice this side, 64, is a grid of 8 x 8 patches of 8."""

_IMAGENET_CROP = 0.875
"""Share of the resized image that the evaluation crop keeps (MAE's evaluation: resize to 256, crop 224)."""


class ImageSource(Protocol):
    """Decoded images by number."""

    labels: np.ndarray

    def load(self, index: int) -> Image.Image:
        """One image in the mode that the model takes."""


@dataclass(frozen=True)
class ArrayImages:
    """Grey images that fit in memory.

    Attributes:
        pixels: (N, H, W) uint8.
        labels: (N,) int64.
        mode: colour mode that `load` returns, `L` or `RGB`.
    """

    pixels: np.ndarray
    labels: np.ndarray
    mode: str = "L"

    def load(self, index: int) -> Image.Image:
        """One image."""
        image = Image.fromarray(self.pixels[index])
        return image if self.mode == "L" else image.convert(self.mode)


@dataclass(frozen=True)
class ImageSplit:
    """One split of an image source; a sample's target is its class number.

    Attributes:
        source: images and labels.
        indices: (N,) numbers of the split's images within the source; these are the sample ids.
        transform: PIL image to (C, H, W) float tensor; random for a training split.
        train: whether items carry the augmentation's seed.
    """

    source: ImageSource
    indices: np.ndarray
    transform: Callable[[Image.Image], Tensor]
    train: bool = False

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def labels(self) -> np.ndarray:
        """(N,) int64 class of each item."""
        return self.source.labels[self.indices]

    def __getitem__(self, item: Item | int) -> Sample:
        index, seed = split_item(item, self.train, len(self))
        number = int(self.indices[index])
        image, label = self.source.load(number), int(self.source.labels[number])
        if seed is None:
            return Sample(self.transform(image), label, number)
        with seeded_rng(seed):
            return Sample(self.transform(image), label, number, seed)


def open_splits(spec: JobSpec) -> Splits:
    """Train, calibration and validation split of the spec's dataset.

    The calibration split is cut from the training images, the same number of each class, by a draw that depends on the
    dataset alone: every run and every seed has the same one.

    Raises:
        UserError: data missing or of the wrong form, or settings that do not fit it.
    """
    data, model = spec.data, spec.model
    _check_channels(data, model)
    training, validation = _open_sources(data, model)
    calibration = balanced(training.labels, data.calibration, data.name, "calibration")
    rest = np.setdiff1d(np.arange(len(training.labels)), calibration)
    if not len(rest):
        raise UserError(f"data.calibration: {data.calibration} leaves none of {len(training.labels)} training images")
    if data.limit_train is not None:
        rest = rest[balanced(training.labels[rest], data.limit_train, data.name, "limit_train")]
    shown = np.arange(len(validation.labels))
    if data.limit_val is not None:
        shown = balanced(validation.labels, data.limit_val, data.name, "limit_val")
    plain = eval_transform(data, model)
    return Splits(
        train=ImageSplit(training, rest, train_transform(data, model, spec.train.augment), train=True),
        calibration=ImageSplit(training, calibration, plain),
        validation=ImageSplit(validation, shown, plain),
    )


def train_transform(data: DataConfig, model: ModelConfig, augment: AugmentConfig) -> Callable[[Image.Image], Tensor]:
    """Random resized crop, flip, RandAugment, normalisation and random erasing, as timm builds them."""
    whole = augment.crop_scale == (1.0, 1.0)
    transform = create_transform(
        input_size=(model.channels, model.image_size, model.image_size),
        is_training=True,
        scale=augment.crop_scale,
        ratio=(1.0, 1.0) if whole else None,  # a whole-image crop of another shape does not exist
        hflip=augment.hflip,
        color_jitter=None,
        auto_augment=augment.rand_augment,
        interpolation="bicubic",
        mean=data.mean,
        std=data.std,
        re_prob=augment.random_erasing,
        re_mode="pixel",
    )
    for step in transform.transforms:
        if isinstance(step, RandAugment):
            _keep_one_bit(step)
    return transform


def eval_transform(data: DataConfig, model: ModelConfig) -> Callable[[Image.Image], Tensor]:
    """Resize, centre crop and normalisation; small images are taken whole."""
    return create_transform(
        input_size=(model.channels, model.image_size, model.image_size),
        is_training=False,
        interpolation="bicubic",
        mean=data.mean,
        std=data.std,
        crop_pct=_IMAGENET_CROP if data.name == "imagenet" else 1.0,
    )


class Collate:
    """Makes batches. Training targets are class shares (B, classes) wherever mixing or smoothing is on, else classes.

    Both forms are what cross entropy takes, so that the loss needs no setting. Mixing draws from a seed made of the
    batch's own items and depends on nothing else.
    """

    def __init__(self, spec: JobSpec, train: bool) -> None:
        augment = spec.train.augment
        self.classes = spec.data.num_classes
        self.smoothing = augment.label_smoothing if train else 0.0
        self.mixup: Mixup | None = None
        if train and (augment.mixup > 0 or augment.cutmix > 0):
            self.mixup = Mixup(
                augment.mixup, augment.cutmix, label_smoothing=augment.label_smoothing, num_classes=self.classes
            )

    def __call__(self, samples: Sequence[Sample]) -> Batch:
        """The batch of `samples`; `targets` are (B,) int64 or (B, classes) float32."""
        images = torch.stack([sample.image for sample in samples])
        targets = torch.tensor([sample.target for sample in samples], dtype=torch.int64)
        ids = torch.tensor([sample.sample_id for sample in samples], dtype=torch.int64)
        seed = batch_seed(samples)
        if self.mixup is not None:
            if len(samples) % 2:
                raise UserError(f"train.batch_size: Mixup and CutMix need an even batch, got {len(samples)} images")
            with seeded_rng(seed):
                images, targets = self.mixup(images, targets)
        elif self.smoothing > 0:
            shares = torch.full((len(samples), self.classes), self.smoothing / self.classes)
            targets = shares.scatter_add_(1, targets[:, None], torch.full((len(samples), 1), 1 - self.smoothing))
        return Batch(images, targets, ids, seed)


def _keep_one_bit(augment: RandAugment) -> None:
    """Stops posterisation at one bit: timm asks for zero bits at full strength, which Pillow refuses."""
    for op in augment.ops:
        if op.name.startswith("Posterize"):
            op.level_fn = partial(_posterize_bits, op.level_fn)


def _posterize_bits(level_fn: Callable[..., tuple[int, ...]], level: float, hparams: dict[str, Any]) -> tuple[int, ...]:
    return tuple(max(1, bits) for bits in level_fn(level, hparams))


def _check_channels(data: DataConfig, model: ModelConfig) -> None:
    if model.channels not in (1, 3):
        raise UserError(f"model.channels: {model.channels} is not 1 (grey) or 3 (colour)")
    for name, values in (("mean", data.mean), ("std", data.std)):
        if len(values) != model.channels:
            raise UserError(f"data.{name}: {len(values)} values for {model.channels} channels; give one per channel")


def _open_sources(data: DataConfig, model: ModelConfig) -> tuple[ImageSource, ImageSource]:
    root, mode = Path(data.root), "L" if model.channels == 1 else "RGB"
    if data.name == "fashion_mnist":
        names = [file.name for file in FILES]
        training, validation = (
            _open_fashion(root / images, root / labels, data.num_classes, mode)
            for images, labels in (names[:2], names[2:])
        )
        return training, validation
    if data.name == "imagenet":
        return open_folder(root / "train", data.num_classes, mode), open_folder(root / "val", data.num_classes, mode)
    raise UserError(f"data.name: '{data.name}' is not a classification dataset; use fashion_mnist or imagenet")


def _open_fashion(images: Path, labels: Path, classes: int, mode: str) -> ArrayImages:
    pixels, numbers = read_images(images), read_labels(labels, classes)
    if len(pixels) != len(numbers):
        raise UserError(f"{labels}: {len(numbers)} labels for {len(pixels)} images; prepare the data again")
    rim = (PADDED_SIZE - IMAGE_SIZE) // 2
    return ArrayImages(np.pad(pixels, ((0, 0), (rim, rim), (rim, rim))), numbers, mode)
