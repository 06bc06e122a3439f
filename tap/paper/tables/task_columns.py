"""Columns of a table that has one or more for each task: those of a task that the paper does not have, too."""

from __future__ import annotations

from collections.abc import Sequence

from tap.paper.reported import Column
from tap.paper.units import in_unit
from tap.task_facts import TASKS


def task_columns(tasks: Sequence[str], end: str = "", unit: str = "percent") -> tuple[Column, ...]:
    """A column of every task, called `<task>` or `<task>_<end>`.

    Args:
        tasks: the tasks.
        end: behind the task's name.
        unit: in which scores are percentages; a task whose score is none has its own.
    """
    return tuple(
        Column(f"{task}_{end}" if end else task, f"{task.title()} {end}".strip(), in_unit(TASKS[task].score, unit))
        for task in tasks
    )
