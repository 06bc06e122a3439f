"""TAP: task registers for token pruning in Vision Transformers, and the workflow that reproduces the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tap.timm_models import register as _register_with_timm

if TYPE_CHECKING:
    from tap.factory import create_model as create_model
    from tap.joint_factory import create_joint_model as create_joint_model

__all__ = ["create_joint_model", "create_model"]
__version__ = "0.1.0"

_register_with_timm()


def __getattr__(name: str) -> Any:
    # The command line must start without waiting for torch, so the model factory is imported when it is first used.
    if name == "create_model":
        from tap.factory import create_model

        return create_model
    if name == "create_joint_model":
        from tap.joint_factory import create_joint_model

        return create_joint_model
    raise AttributeError(f"module 'tap' has no attribute '{name}'")
