"""Where the code behind a job starts from: modules that a fingerprint begins with, and libraries that it covers.

The registries of tasks and methods choose a module by its name. They are not followed, or every job would depend on
every method; what they choose is named here instead.
"""

from __future__ import annotations

from typing import Final

from tap.config.methods import DENSE, PRETRAINING
from tap.errors import UserError
from tap.plan.datasets import CHECKED, PREPARED
from tap.plan.teaching import TAUGHT
from tap.provenance.fingerprint import module_exists

COMPUTING: Final = ("numpy", "safetensors", "timm", "torch", "torchvision")
TABULATING: Final = ("numpy", "pandas")
DRAWING: Final = ("matplotlib", "seaborn")

_TASKS: Final = {
    "cls": "tap.tasks.classification.task",
    "seg": "tap.tasks.segmentation.task",
    "det": "tap.tasks.detection.task",
}
_TASK_LIBRARIES: Final = {"cls": (), "seg": ("onedl-mmsegmentation",), "det": ("onedl-mmdetection", "pycocotools")}


def is_built(task: str) -> bool:
    """Whether this project has the pipeline of a task yet."""
    return module_exists(_TASKS[task])


def of_model(task: str, method: str) -> tuple[str, ...]:
    """Roots of the model of a method on a task (`mae` is the pre-training), and of its teacher's.

    Raises:
        UserError: the task or the method is not built yet.
    """
    if not is_built(task):
        raise UserError(f"task: '{task}' is not built yet; leave it out of `tasks` in params.yaml")
    if method == PRETRAINING:
        return ("tap.tasks.pretraining.task", _TASKS[task], f"tap.reducers.{DENSE}")
    reducer = f"tap.reducers.{method}"
    if not module_exists(reducer):
        raise UserError(f"method: '{method}' is not built yet; leave it out of tasks.{task}.methods")
    return (_TASKS[task], reducer, *((f"tap.reducers.{DENSE}",) if method in TAUGHT else ()))


def computing_with(task: str) -> tuple[str, ...]:
    """Libraries of the jobs that compute with a task's models."""
    return (*COMPUTING, *_TASK_LIBRARIES[task])


def of_data(name: str) -> tuple[str, ...]:
    """Root of what prepares a dataset, or checks one that is a person's own; none where neither can be."""
    module = {**PREPARED, **CHECKED}.get(name)
    return () if module is None else (module,)
