"""TAP: task registers for token pruning in Vision Transformers, and the workflow that reproduces the paper."""

from __future__ import annotations

import importlib
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
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


class _Names(MetaPathFinder):
    """Registers the names of TAP's models as soon as somebody imports timm, for which nobody waits before that."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """timm's own way to be found and executed, and the registration behind it.

        It stays until timm is executed: others, such as transformers, only look whether timm is there.
        """
        if name != "timm":
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                sys.meta_path.remove(self)
                importlib.import_module("tap.timm_models")

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


if "timm" in sys.modules:
    importlib.import_module("tap.timm_models")
else:
    sys.meta_path.insert(0, _Names())
