"""Every kind of job by its name: the `JOB` of each module in `tap.jobs.kinds`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import Any, Final

import tap.jobs.kinds
from tap.errors import UserError
from tap.jobs.job import Job

_MODULES = [
    importlib.import_module(f"tap.jobs.kinds.{found.name}") for found in pkgutil.iter_modules(tap.jobs.kinds.__path__)
]


def by_name(jobs: Iterable[Job[Any]]) -> dict[str, Job[Any]]:
    """Kinds of jobs by name.

    Raises:
        UserError: two of them have the same name, or the same command.
    """
    found: dict[str, Job[Any]] = {}
    commands: dict[str, Job[Any]] = {}
    for job in jobs:
        known, where = found.setdefault(job.name, job), type(job).__module__
        if known is not job:
            raise UserError(f"{where}: a kind of job is called '{job.name}' in {type(known).__module__} already")
        for words in job.commands():
            other = commands.setdefault(words, job)
            if other is not job:
                raise UserError(
                    f"{where}: `tap {words}` is the command of '{other.name}' ({type(other).__module__}) already; "
                    "give it another"
                )
    return found


JOBS: Final[Mapping[str, Job[Any]]] = by_name(module.JOB for module in _MODULES)
"""A new kind of job is one more module."""
