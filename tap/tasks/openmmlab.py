"""OpenMMLab's packages without the lines that they print at every import, and the names that the dense tasks use."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from types import ModuleType

from mmengine.logging import MMLogger
from mmseg.registry import DATASETS, TRANSFORMS

__all__ = ["DATASETS", "TRANSFORMS", "BaseSegDataset", "import_quietly"]

_KNOWN_LINES = ("Could not import OneDL",)  # an optional data service
_KNOWN_WARNINGS = (  # compiled operators, which nothing here uses
    "Fail to import ``MultiScaleDeformableAttention``",
    "Line NMS is not compiled",
)


def import_quietly(module: str) -> ModuleType:
    """Imports a module; of what it prints, the known lines are dropped and the rest is passed on."""
    printed = io.StringIO()
    logger = MMLogger.get_current_instance()
    for handler in logger.handlers:
        handler.addFilter(_unknown)
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            for start in _KNOWN_WARNINGS:
                warnings.filterwarnings("ignore", message=start)
            return importlib.import_module(module)
    finally:
        for handler in logger.handlers:
            handler.removeFilter(_unknown)
        for line in printed.getvalue().splitlines():
            if line not in _KNOWN_LINES:
                print(line)


def _unknown(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_KNOWN_WARNINGS)


BaseSegDataset = import_quietly("mmseg.datasets").BaseSegDataset
