"""TAP's models under timm's factory: `import tap`, then `timm.create_model("tap_vit_base_patch16_224")`.

timm has no plug-in interface, and importing it takes seconds that the command line and the workflow do not have. So the
names are registered when timm is there, or as soon as it comes, whichever of the two is imported first.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_TIMM_ONLY = {"pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"}
"""What timm's factory hands to every model; it concerns downloads, which there are none of."""


def tap_vit_base_patch16_224(pretrained: bool = False, **kwargs: Any) -> Any:
    """ViT-B/16 with MAE conventions under TAP at keep rate 0.5.

    Keyword arguments are those of `tap.create_model`; timm's `in_chans`, `img_size` and `drop_path_rate` work as well.

    Raises:
        UserError: `pretrained=True`; no weights are published under this name.
    """
    from tap.errors import UserError
    from tap.factory import create_model

    if pretrained:
        raise UserError("pretrained: no weights are published for this name; pass weights='<file>' instead")
    for timm_name, own_name in (("in_chans", "channels"), ("img_size", "image_size"), ("drop_path_rate", "drop_path")):
        if timm_name in kwargs:
            kwargs[own_name] = kwargs.pop(timm_name)
    own = {key: value for key, value in kwargs.items() if key not in _TIMM_ONLY}
    return create_model("vit_base_patch16_224.mae", **own)


def register() -> None:
    """Registers the names, now or right after timm's import."""
    if "timm" in sys.modules and hasattr(sys.modules["timm"], "models"):
        _register_now()
    elif not any(isinstance(finder, _AfterTimm) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterTimm())


def _register_now() -> None:
    from timm.models import is_model, register_model

    if not is_model(tap_vit_base_patch16_224.__name__):
        register_model(tap_vit_base_patch16_224)


class _AfterTimm(MetaPathFinder):
    """Lets the usual finders import timm and registers the names when that is done."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "timm":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("timm")
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            _register_now()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
