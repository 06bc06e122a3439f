"""Where the code behind a job starts from: modules that a fingerprint begins with, and libraries that it covers.

The registries of tasks and methods choose a module by its name. They are not followed, or every job would depend on
every method; what they choose is named here instead.
"""

from __future__ import annotations

from typing import Final

from tap.config.methods import DENSE, PRETRAINING, TAUGHT
from tap.errors import UserError
from tap.provenance.fingerprint import module_exists
from tap.task_facts import CHECKED, PREPARED, TASKS

COMPUTING: Final = ("numpy", "safetensors", "timm", "torch", "torchvision")
TABULATING: Final = ("numpy", "pandas")
DRAWING: Final = ("matplotlib", "seaborn")


def is_built(task: str) -> bool:
    """Whether this project has the pipeline of a task yet."""
    return module_exists(TASKS[task].module)


def of_model(task: str, method: str) -> tuple[str, ...]:
    """Roots of the model of a method on a task (`mae` is the pre-training), and of its teacher's.

    Raises:
        UserError: the task or the method is not built yet.
    """
    if not is_built(task):
        raise UserError(f"task: '{task}' is not built yet; leave it out of `tasks` in params.yaml")
    if method == PRETRAINING:
        return ("tap.tasks.pretraining.task", TASKS[task].module, f"tap.reducers.{DENSE}")
    reducer = f"tap.reducers.{method}"
    if not module_exists(reducer):
        raise UserError(f"method: '{method}' is not built yet; leave it out of tasks.{task}.methods")
    return (TASKS[task].module, reducer, *((f"tap.reducers.{DENSE}",) if method in TAUGHT else ()))


def computing_with(task: str) -> tuple[str, ...]:
    """Libraries of the jobs that compute with a task's models."""
    return (*COMPUTING, *TASKS[task].libraries)


def of_data(name: str) -> tuple[str, ...]:
    """Root of what prepares a dataset, or checks one that is a person's own; none where neither can be."""
    module = {**PREPARED, **CHECKED}.get(name)
    return () if module is None else (module,)
