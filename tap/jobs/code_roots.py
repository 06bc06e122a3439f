"""Where the code behind a job starts from: what a fingerprint begins with, and the libraries that it covers.

The registries of tasks and methods choose a module by its name. They are not followed, or every job would depend on
every method; what they choose is named here instead.
"""

from __future__ import annotations

from typing import Final

from tap.config.datasets import CHECKED, PREPARED
from tap.config.lookup import method_of
from tap.config.methods import DENSE, PRETRAINING
from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.provenance.fingerprint import module_exists
from tap.task_facts import TASKS

COMPUTING: Final = ("numpy", "safetensors", "timm", "torch", "torchvision")
TABULATING: Final = ("numpy", "pandas", "scipy")
DRAWING: Final = ("matplotlib", "seaborn")


def is_built(task: str) -> bool:
    """Whether this project has the pipeline of a task yet."""
    return module_exists(TASKS[task].module)


def built(cfg: ScaleConfig) -> list[str]:
    """The tasks of a scale that have their pipeline."""
    return [task for task in cfg.tasks if is_built(task)]


def of_model(task: str, method: str) -> tuple[str, ...]:
    """The pipeline of a task and what registers its method (`mae` is the pre-training), without what tables say of it.

    Raises:
        UserError: the task or the method is not built yet.
    """
    if not is_built(task):
        raise UserError(f"task: '{task}' is not built yet; leave it out of `tasks` in params.yaml")
    choice, pipeline = "tap.plan.pretraining:is_pretraining", TASKS[task].pipeline
    if method == PRETRAINING:
        return (choice, "tap.tasks.pretraining.task", pipeline, f"tap.reducers.{DENSE}:METHOD")
    if not module_exists(f"tap.reducers.{method}"):
        raise UserError(f"method: '{method}' is not built yet; leave it out of tasks.{task}.methods")
    methods = (method, DENSE) if method_of(method).taught else (method,)
    return (choice, pipeline, *(f"tap.reducers.{name}:METHOD" for name in methods))


def computing_with(task: str) -> tuple[str, ...]:
    """Libraries of the jobs that compute with a task's models."""
    return (*COMPUTING, *TASKS[task].libraries)


def computing_with_all() -> tuple[str, ...]:
    """Libraries of the jobs that compute with the models of several tasks."""
    return tuple(dict.fromkeys(library for task in TASKS for library in computing_with(task)))


def of_data(name: str) -> tuple[str, ...]:
    """Root of what prepares a dataset, or checks one that is a person's own; none where neither can be."""
    module = {**PREPARED, **CHECKED}.get(name)
    return () if module is None else (module,)
