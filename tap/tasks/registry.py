"""Which task a job belongs to."""

from __future__ import annotations

import importlib

from tap.config.schema import JobSpec
from tap.plan.pretraining import is_pretraining
from tap.task_facts import TASKS
from tap.tasks.base import Task
from tap.tasks.pretraining.task import Pretraining


def get_task(spec: JobSpec) -> Task:
    """The pipeline of a job; pre-training borrows the images of its task."""
    module, _, name = TASKS[spec.task].pipeline.partition(":")
    pipeline: type[Task] = getattr(importlib.import_module(module), name)  # now: MMSegmentation takes seconds to import
    task = pipeline()
    return Pretraining(task) if is_pretraining(spec) else task
