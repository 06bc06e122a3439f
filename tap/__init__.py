"""TAP: task registers for token pruning in Vision Transformers, and the workflow that reproduces the paper."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tap.factory import create_model as create_model
    from tap.factory import from_pretrained as from_pretrained
    from tap.factory import wrap as wrap
    from tap.joint_factory import create_joint_model as create_joint_model

__all__ = ["create_joint_model", "create_model", "from_pretrained", "wrap"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "create_joint_model":
        return importlib.import_module("tap.joint_factory").create_joint_model
    if name in __all__:
        return getattr(importlib.import_module("tap.factory"), name)
    raise AttributeError(f"module 'tap' has no attribute '{name}'")


def _is_command_line() -> bool:
    """Whether this process runs the command line or the workflow, which start without waiting for torch.

    `-m` stands for a module of this package that Python is about to run.
    """
    return Path(sys.argv[0] if sys.argv else "").stem in ("tap", "-m") or "snakemake" in sys.modules


if not _is_command_line():
    # Registers the names with timm, which has no other way to learn them.
    importlib.import_module("tap.timm_models")
