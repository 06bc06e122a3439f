"""What a task is to the rest of the project: data, a model, a loss and a metric behind one interface.

Data is random access. An evaluation item is named by its index; a training item by an `Item`, whose seed alone decides
the augmentation. Who draws which items (a function of seed, epoch and step) is the engine's business, and because an
item depends on nothing else, the number of loading processes and the order of loading change no pixel.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tap.config.schema import JobSpec
from tap.seeds import derive_seed
from tap.task_facts import PLACE, TaskFacts

SplitName = Literal["train", "calibration", "validation"]


class Item(NamedTuple):
    """One draw of a training sample.

    Attributes:
        index: position in the dataset, in [0, len(dataset)).
        seed: decides every random choice of the augmentation.
    """

    index: int
    seed: int


SAMPLE_ID = "sample_id"


class Sample(NamedTuple):
    """What a dataset returns.

    Attributes:
        image: (C, H, W) float32, normalised.
        target: what the task's loss or metric reads: a class number, a label map, boxes and masks.
        sample_id: number of the image within its source; the same with and without limits on the split's size.
        seed: the item's seed, 0 for evaluation items.
        place: number of what several evaluation images are views of; None where each image stands for itself.
    """

    image: Tensor
    target: Any
    sample_id: int
    seed: int = 0
    place: int | None = None


class Batch(NamedTuple):
    """What a collate function returns.

    Attributes:
        images: (B, C, H, W) float32.
        targets: what the task's loss takes, batched; tensors, or lists and dicts of tensors.
        sample_ids: (B,) int64.
        seed: seed of draws that concern the batch as a whole (training), else 0.
        places: (B,) int64; None where each image stands for itself.
    """

    images: Tensor
    targets: Any
    sample_ids: Tensor
    seed: int = 0
    places: Tensor | None = None

    def to(self, device: torch.device | str) -> Batch:
        """The batch with every tensor on `device`."""
        return Batch(
            self.images.to(device, non_blocking=True),
            _to(self.targets, device),
            self.sample_ids.to(device, non_blocking=True),
            self.seed,
            _to(self.places, device),
        )

    @property
    def identity(self) -> dict[str, np.ndarray]:
        """What single values of its images are told apart by: `sample_id`, and `place` where images share some."""
        found = {SAMPLE_ID: self.sample_ids.cpu().numpy()}
        return found if self.places is None else found | {PLACE: self.places.cpu().numpy()}


class SampleDataset(Protocol):
    """Map-style dataset of one split.

    Attributes:
        train: whether items are augmented; `dataset[Item(index, seed)]` if so, `dataset[index]` if not.
    """

    train: bool

    def __len__(self) -> int: ...

    def __getitem__(self, item: Item | int) -> Sample: ...


@dataclass(frozen=True)
class Splits:
    """The three splits of a task. Calibration and validation images are never augmented."""

    train: SampleDataset
    calibration: SampleDataset
    validation: SampleDataset

    def get(self, name: SplitName) -> SampleDataset:
        """The split called `name`."""
        return {"train": self.train, "calibration": self.calibration, "validation": self.validation}[name]


@dataclass(frozen=True)
class Evaluation:
    """Result of one pass over a split.

    Attributes:
        metrics: scalars by name, as `metrics.json` holds them.
        per_sample: arrays whose first axis is the image, in the split's order; `sample_id` is always among them. What a
            paired bootstrap needs: correctness, confusion matrices, token counts.
    """

    metrics: dict[str, float]
    per_sample: dict[str, np.ndarray] = field(default_factory=dict)


class Task(ABC):
    """One pipeline. Holds no state; every setting comes with the spec.

    Attributes:
        facts: what the task is.
    """

    facts: TaskFacts

    @abstractmethod
    def datasets(self, spec: JobSpec) -> Splits:
        """Opens the prepared data.

        Raises:
            UserError: data missing, incomplete or of the wrong form.
        """

    @abstractmethod
    def collate(self, spec: JobSpec, train: bool) -> Callable[[Sequence[Sample]], Batch]:
        """The function that makes a batch of samples; picklable, so that loading processes can use it."""

    def loader(self, dataset: Any, spec: JobSpec) -> DataLoader:
        """Evaluation batches of a split, or of a part of it, in its order."""
        return DataLoader(
            dataset,
            spec.eval.batch_size,
            collate_fn=self.collate(spec, train=False),
            num_workers=spec.data.workers,
        )

    def encoder_inputs(self, spec: JobSpec, images: Tensor) -> Sequence[Tensor]:
        """What the encoder sees of evaluation images `(B, C, H, W)`, pass by pass; the images themselves by default."""
        return [images]

    @abstractmethod
    def build_model(self, spec: JobSpec) -> nn.Module:
        """The encoder with the task's head, initialised from the spec's seed."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, progress: float) -> tuple[Tensor, dict[str, float]]:
        """Scalar loss of a training batch, and what the log shows beside it.

        Args:
            model: what `build_model` made, possibly wrapped for several processes.
            batch: a training batch on the model's device.
            progress: share of the training that is done, in [0, 1].
        """

    @abstractmethod
    def evaluate(self, model: nn.Module, spec: JobSpec, split: SplitName, device: torch.device) -> Evaluation:
        """Metrics of `model` on a split, with the per-image values behind them."""


def with_terms(loss: Tensor, terms: Mapping[str, Tensor], weight: float = 1.0) -> tuple[Tensor, dict[str, Any]]:
    """A task's loss with the terms of the method; where there are any, the log shows each part by its name.

    Args:
        loss: the task's own loss.
        terms: weighted terms of the method.
        weight: weight of the task's own loss beside them.
    """
    if not terms:
        return loss, {}
    parts = {"task_loss": loss if weight == 1.0 else weight * loss, **terms}
    # Left on the device: the loop reads them when it writes a row of the log.
    return sum(parts.values(), loss.new_zeros(())), {name: part.detach() for name, part in parts.items()}


@contextmanager
def seeded_rng(seed: int) -> Iterator[None]:
    """Makes Python's, NumPy's and torch's global CPU generators a function of `seed`, and puts them back afterwards.

    Augmentation libraries draw from all three. The training job's own draws (drop path, Gumbel noise) must not notice
    that a sample was loaded in the same process, hence the restoring.
    """
    python, numpy, generator = random.getstate(), np.random.get_bit_generator(), torch.default_generator
    before = generator.get_state()
    random.seed(seed)
    np.random.set_bit_generator(np.random.PCG64(seed))  # swapping is ten times faster than saving and reseeding
    generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_bit_generator(numpy)
        generator.set_state(before)


def split_item(item: Item | int, train: bool, length: int) -> tuple[int, int | None]:
    """Checks what a dataset was asked for.

    Returns:
        Index, and the augmentation's seed (None for an evaluation item).

    Raises:
        IndexError: the index is outside the dataset (also what ends plain iteration).
        TypeError: a training dataset was asked without a seed, or an evaluation dataset with one.
    """
    if isinstance(item, Item) != train:
        wanted = "dataset[Item(index, seed)]" if train else "dataset[index]"
        raise TypeError(f"this split is read as {wanted}")
    index, seed = (item.index, item.seed) if isinstance(item, Item) else (int(item), None)
    if not 0 <= index < length:
        raise IndexError(f"item {index} of a split of {length}")
    return index, seed


def batch_seed(samples: Sequence[Sample]) -> int:
    """Seed of what concerns a training batch as a whole; 0 for evaluation samples."""
    return derive_seed("batch", *(sample.seed for sample in samples)) if samples[0].seed else 0


def batch_places(samples: Sequence[Sample]) -> Tensor | None:
    """What the images of a batch are views of `(B,)`; None where each stands for itself."""
    places = [sample.place for sample in samples if sample.place is not None]
    return torch.tensor(places, dtype=torch.int64) if len(places) == len(samples) else None


def _to(value: Any, device: torch.device | str) -> Any:
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return {key: _to(part, device) for key, part in value.items()}
    if isinstance(value, list):
        return [_to(part, device) for part in value]
    return value
