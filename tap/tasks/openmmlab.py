"""OpenMMLab's packages without the lines that they print at every import, and the names that the dense tasks use."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType

from mmengine.logging import MMLogger
from mmengine.registry import DefaultScope
from mmseg.registry import DATASETS, TRANSFORMS

from tap.tasks import operators

__all__ = ["DATASETS", "TRANSFORMS", "BaseSegDataset", "import_quietly", "named_in", "quiet_initialisation"]

_KNOWN_LINES = ("Could not import OneDL", "Could not import OneDL. Skipping OneDL datasets.")  # a data service
_KNOWN_WARNINGS = (  # compiled operators, which nothing here uses
    "Fail to import ``MultiScaleDeformableAttention``",
    "Line NMS is not compiled",
)


def import_quietly(module: str) -> ModuleType:
    """Imports a module; of what it prints, the known lines are dropped and the rest is passed on.

    Without language models, which OpenMMLab's packages would import because they are installed: a third of the time.
    """
    printed = io.StringIO()
    logger = MMLogger.get_current_instance()
    for handler in logger.handlers:
        handler.addFilter(_unknown)
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings(), _without("transformers"):
            for start in _KNOWN_WARNINGS:
                warnings.filterwarnings("ignore", message=start)
            return importlib.import_module(module)
    finally:
        for handler in logger.handlers:
            handler.removeFilter(_unknown)
        for line in printed.getvalue().splitlines():
            if line not in _KNOWN_LINES:
                print(line)


def named_in(package: str) -> contextlib.AbstractContextManager[None]:
    """Inside, a configuration's names are those of `mmseg` or `mmdet`, whatever scope a caller's Runner set.

    Both packages have their own class under some names (`RandomCrop`, `CrossEntropyLoss`), so another scope would not
    always fail: it could build another thing.
    """
    return DefaultScope.overwrite_default_scope(package)


@contextlib.contextmanager
def quiet_initialisation() -> Iterator[None]:
    """Keeps MMEngine from writing a line for every parameter that it initialises."""
    logger = MMLogger.get_current_instance()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _without(package: str) -> Iterator[None]:
    """Makes a package look as if it were not installed, unless it is in use already."""
    absent = package not in sys.modules
    if absent:
        sys.modules[package] = None  # type: ignore[assignment]  Python's own way to say so
    try:
        yield
    finally:
        if absent:
            del sys.modules[package]


def _unknown(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_KNOWN_WARNINGS)


operators.install()  # before anything imports MMCV's operators
BaseSegDataset = import_quietly("mmseg.datasets").BaseSegDataset
