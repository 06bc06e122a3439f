"""Which code is behind each kind of job: where the fingerprint that a workflow rule carries starts from.

The registries of tasks and methods choose a module by its name. They are not followed, or every job would depend on
every method; what they choose is named here instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tap.provenance.fingerprint import code_fingerprint

COMPUTING: Final = ("numpy", "safetensors", "timm", "torch", "torchvision")
TABULATING: Final = ("numpy", "pandas")

_TASKS: Final = {
    "cls": "tap.tasks.classification.task",
    "seg": "tap.tasks.segmentation.task",
    "det": "tap.tasks.detection.task",
}
_TASK_LIBRARIES: Final = {"cls": (), "seg": ("onedl-mmsegmentation",), "det": ("onedl-mmdetection",)}
PREPARED: Final = {
    "fashion_mnist": "tap.tasks.classification.fashion",
    "microscopy": "tap.tasks.segmentation.microscopy",
}
"""Datasets that the workflow fetches, with the module that does. Other data are a person's own and are only checked."""


def code_of_data(name: str) -> str:
    """Fingerprint of what prepares a dataset; of nothing for data that are a person's own."""
    return code_fingerprint([PREPARED[name]]) if name in PREPARED else ""


def code_of_training(task: str, method: str) -> str:
    """Fingerprint of what trains a method on a task (`mae` is the pre-training)."""
    return code_fingerprint(["tap.engine.job", *_model(task, method)], [*COMPUTING, *_TASK_LIBRARIES[task]])


def code_of_evaluation(task: str, method: str) -> str:
    """Fingerprint of what evaluates and profiles a method on a task."""
    return code_fingerprint(["tap.engine.loop", *_model(task, method)], [*COMPUTING, *_TASK_LIBRARIES[task]])


def code_of_gathering() -> str:
    """Fingerprint of what makes the tidy table."""
    return code_fingerprint(["tap.paper.tidy"], TABULATING)


def code_of_tables() -> str:
    """Fingerprint of what makes the paper's tables."""
    return code_fingerprint(["tap.paper.tables.registry"], TABULATING)


def _model(task: str, method: str) -> Sequence[str]:
    if method == "mae":
        return ("tap.tasks.pretraining.task", _TASKS[task], "tap.reducers.dense")
    return (_TASKS[task], f"tap.reducers.{method}")
