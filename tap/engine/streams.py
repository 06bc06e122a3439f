"""Which samples a training step sees: a pure function of (seed, epoch, position), whoever asks and whenever.

Nothing is remembered between steps, so a resumed run, another number of loading processes or another machine draw the
same samples in the same order. `Stream.batch` is the definition; the loader only fetches what it names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from tap.config.schema import TrainConfig
from tap.errors import UserError
from tap.seeds import derive_seed
from tap.tasks.base import Item

T = TypeVar("T")


class Stream:
    """An endless sequence of batches over a training set.

    Every epoch is a fresh permutation of all samples, cut into full batches; the remainder of an epoch is left out.
    Of each batch a process takes the slice that belongs to its rank, so that the batch as a whole does not depend on
    the number of processes.

    Args:
        samples: number of samples of the dataset.
        batch_size: samples per optimizer step, over all processes.
        seed: the run's seed.
        rank: this process.
        world_size: number of processes.

    Raises:
        UserError: the batch is larger than the dataset, or the processes cannot share it evenly.
    """

    def __init__(self, samples: int, batch_size: int, seed: int, rank: int = 0, world_size: int = 1) -> None:
        if batch_size > samples:
            raise UserError(
                f"train.batch_size: {batch_size} is more than the {samples} training samples; "
                "choose a smaller batch or more data"
            )
        if batch_size % world_size:
            raise UserError(
                f"train.batch_size: {batch_size} cannot be shared evenly by {world_size} processes; choose a multiple"
            )
        self.samples = samples
        self.batch_size = batch_size
        self.seed = seed
        self.steps_per_epoch = samples // batch_size
        share = batch_size // world_size
        self._slice = slice(rank * share, (rank + 1) * share)
        self._known: tuple[int, list[int]] = (-1, [])

    def order(self, epoch: int) -> list[int]:
        """The permutation of all sample indices that epoch `epoch` (from 0) follows."""
        if self._known[0] != epoch:
            generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", epoch))
            self._known = epoch, torch.randperm(self.samples, generator=generator).tolist()
        return self._known[1]

    def batch(self, step: int) -> list[Item]:
        """This process's items of global step `step` (from 0)."""
        epoch, position = divmod(step, self.steps_per_epoch)
        first = position * self.batch_size
        indices = self.order(epoch)[first : first + self.batch_size][self._slice]
        return [Item(index, derive_seed(self.seed, "item", epoch, index)) for index in indices]

    def loader(
        self, dataset: Dataset, collate: Callable[[Sequence], T], start: int, stop: int, workers: int = 0
    ) -> Iterator[T]:
        """Fetches the batches of the steps in [start, stop).

        Args:
            dataset: map-style, read with `Item`s.
            collate: makes a batch of a list of samples.
            start: first step.
            stop: step after the last one.
            workers: loading processes; 0 loads in this process. Changes the speed, never a batch.
        """
        return iter(
            DataLoader(
                dataset,
                batch_sampler=_Steps(self, start, stop),
                collate_fn=collate,
                num_workers=workers,
                pin_memory=torch.cuda.is_available(),
                # Its own generator: creating the iterator draws a number, which must not come from the global one.
                generator=torch.Generator().manual_seed(0),
            )
        )


class _Steps:
    """The items of consecutive steps, in the shape that a DataLoader takes for its batches."""

    def __init__(self, stream: Stream, start: int, stop: int) -> None:
        self._stream, self._start, self._stop = stream, start, stop

    def __len__(self) -> int:
        return max(0, self._stop - self._start)

    def __iter__(self) -> Iterator[list[Item]]:
        return (self._stream.batch(step) for step in range(self._start, self._stop))


def in_steps(amount: float, unit: str, steps_per_epoch: int) -> int:
    """A length that the settings give in `unit` (``epochs`` or ``steps``), as a number of steps, halves rounded up."""
    return math.floor(amount * (steps_per_epoch if unit == "epochs" else 1) + 0.5)


def total_steps(train: TrainConfig, steps_per_epoch: int) -> int:
    """Optimizer steps of a whole training, at least 1."""
    return max(1, in_steps(train.length, train.unit, steps_per_epoch))
