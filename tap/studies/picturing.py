"""An image under trained models: which one is shown, what each keeps and says, and where removed patches point."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tap.config.schema import JobSpec
from tap.encoder.sparse_vit import EncoderOutput
from tap.plan.runs import run_of
from tap.studies.pictured import OfMethod, Pointers
from tap.task_facts import TaskFacts
from tap.tasks.base import Sample
from tap.tasks.pictures import pixels_of
from tap.tasks.retention import final_kept
from tap.tasks.view import View, bytes_of


class Picturing:
    """How the images of a task are shown; one without views shows the patches alone.

    Args:
        facts: the task.
        spec: settings with its data.
        dataset: its validation split.
    """

    def __init__(self, facts: TaskFacts, spec: JobSpec, dataset: Any) -> None:
        self.spec, self.dataset = spec, dataset
        self._views: Any = importlib.import_module(facts.views) if facts.views else None

    def choose(self, samples: Sequence[Sample]) -> int:
        """The place of the image on which there is most to see, by its label alone; the first of equal ones."""
        return 0 if self._views is None else int(np.argmax([self._views.interest(sample) for sample in samples]))

    def pixels(self, sample: Sample) -> NDArray[np.uint8]:
        """The image `(H, W, 3)`, without padding where the task has views."""
        pixels = pixels_of(sample.image, self.spec) if self._views is None else self._views.pixels(self.spec, sample)
        return bytes_of(pixels)

    def truth(self, sample: Sample) -> View | None:
        """What its label says."""
        return None if self._views is None else self._views.truth(self.spec, self.dataset, sample)

    def under(self, model: Any, spec: JobSpec, sample: Sample, output: EncoderOutput, device: torch.device) -> OfMethod:
        """An image under a trained model.

        Args:
            model: on `device`, for evaluation.
            spec: its run.
            sample: the image.
            output: of a pass of the model's encoder over the image, with its trace.
            device: where to compute.
        """
        assert output.trace is not None
        kept = final_kept(output.trace)[0].view(output.trace.grid).numpy()
        says = None if self._views is None else self._views.predicted(model, spec, self.dataset, sample, device)
        return OfMethod(spec.method, run_of(spec).id, kept, says)


def pointers_of(output: EncoderOutput) -> Pointers | None:
    """The pointers of a pass over one image; None where it stored none."""
    buffer = output.recovery
    if buffer is None or not buffer.records:
        return None
    removed_at = buffer.removed_at[0].cpu().numpy().astype(np.int64)
    pointer, offset = np.arange(len(removed_at)), np.zeros(len(removed_at))
    for record in buffer.records:  # in ascending original index
        places = removed_at == record.layer
        pointer[places] = record.pointer.cpu().numpy()
        offset[places] = record.offset.double().norm(dim=1).cpu().numpy()
    layers = np.array([record.layer for record in buffer.records])
    scales = np.array([float(record.scale[0]) for record in buffer.records])
    return Pointers(layers, scales, removed_at, pointer, offset)
