"""What the task and the method of a job are, by their names.

A job's code reaches its own task and method from its roots (`tap.jobs.code_roots`), so no fingerprint follows these
lists of all: another task or method repeats nothing.
"""

from __future__ import annotations

from tap.config.methods import METHODS
from tap.method_facts import Method
from tap.task_facts import TASKS, TaskFacts


def facts_of(task: str) -> TaskFacts:
    """What a task is.

    Raises:
        KeyError: there is none of that name.
    """
    return TASKS[task]


def method_of(name: str) -> Method:
    """What a method is for its jobs; the pre-training removes nothing, so nothing is said of it."""
    return METHODS[name].method if name in METHODS else Method()
