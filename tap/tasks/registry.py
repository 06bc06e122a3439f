"""Which task a job belongs to."""

from __future__ import annotations

from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.tasks.base import Task
from tap.tasks.classification.task import Classification
from tap.tasks.pretraining.task import Pretraining


def get_task(spec: JobSpec) -> Task:
    """The pipeline of a job; pre-training (method `mae`) borrows the images of its task.

    Raises:
        UserError: the task is not built yet.
    """
    if spec.task != "cls":
        raise UserError(f"task: '{spec.task}' is not built yet; use cls")
    task = Classification()
    return Pretraining(task) if spec.method == "mae" else task
