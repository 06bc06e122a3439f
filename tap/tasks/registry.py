"""Which task a job belongs to."""

from __future__ import annotations

from tap.config.schema import JobSpec
from tap.tasks.base import Task
from tap.tasks.classification.task import Classification
from tap.tasks.pretraining.task import Pretraining


def get_task(spec: JobSpec) -> Task:
    """The pipeline of a job; pre-training (method `mae`) borrows the images of its task."""
    task: Task
    if spec.task == "cls":
        task = Classification()
    elif spec.task == "seg":
        from tap.tasks.segmentation.task import Segmentation  # here, since MMSegmentation takes seconds to import

        task = Segmentation()
    else:
        from tap.tasks.detection.task import Detection  # as MMDetection

        task = Detection()
    return Pretraining(task) if spec.method == "mae" else task
