"""Every kind of job by its name: the `JOB` of each module in `tap.jobs.kinds`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any, Final

import tap.jobs.kinds
from tap.jobs.job import Job

_MODULES = [
    importlib.import_module(f"tap.jobs.kinds.{found.name}") for found in pkgutil.iter_modules(tap.jobs.kinds.__path__)
]

JOBS: Final[Mapping[str, Job[Any]]] = {module.JOB.name: module.JOB for module in _MODULES}
"""A new kind of job is one more module."""
