"""TAP's models under timm's factory: `import tap`, then `timm.create_model("tap_vit_base_patch16_224")`.

Each name is a ViT of timm's with a register at keep rate 0.5. Keyword arguments are timm's, and those of
`tap.create_model` that concern the method: `keep_rate`, `method`, `controller`, `weights`, `sha256`, `anneal_steps`.
With `features_only=True` the model gives complete grids, and its register is that of `task="seg"`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from timm.models import build_model_with_cfg, generate_default_cfgs, get_pretrained_cfg, is_model, register_model
from torch import nn

from tap.errors import UserError

BASES: Final = {
    "tap_vit_tiny_patch16_224": "vit_tiny_patch16_224",
    "tap_vit_small_patch16_224": "vit_small_patch16_224",
    "tap_vit_base_patch16_224": "vit_base_patch16_224.mae",
    "tap_vit_large_patch16_224": "vit_large_patch16_224.mae",
    "tap_deit3_small_patch16_224": "deit3_small_patch16_224",
    "tap_deit3_medium_patch16_224": "deit3_medium_patch16_224",
    "tap_deit3_base_patch16_224": "deit3_base_patch16_224",
    "tap_deit3_large_patch16_224": "deit3_large_patch16_224",
    "tap_vit_small_patch14_reg4_dinov2": "vit_small_patch14_reg4_dinov2",
    "tap_vit_base_patch14_reg4_dinov2": "vit_base_patch14_reg4_dinov2",
    "tap_vit_large_patch14_reg4_dinov2": "vit_large_patch14_reg4_dinov2",
}
"""timm's model behind each name."""

_SHARED = ("input_size", "fixed_input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std", "license")
"""What of a model's configuration holds for the same images under a register."""


def _configuration(base: str) -> dict[str, Any]:
    own: Any = get_pretrained_cfg(base)
    shared = {key: getattr(own, key) for key in _SHARED if getattr(own, key, None) is not None}
    return shared | {"num_classes": 1000, "first_conv": "encoder.vit.patch_embed.proj", "classifier": "head"}


default_cfgs = generate_default_cfgs({name: _configuration(base) for name, base in BASES.items()})
"""What `register_model` looks up: sizes, mean and std; no weights are published under these names."""


def _entrypoint(name: str, base: str) -> Callable[..., nn.Module]:
    def create(pretrained: bool = False, **kwargs: Any) -> nn.Module:
        from tap.factory import build  # which imports timm, behind whose import these names are registered

        if pretrained:
            raise UserError(
                "pretrained: no weights are published for this name; pass weights='<file>' instead, or "
                "tap.wrap(timm.create_model(..., pretrained=True))"
            )
        if kwargs.get("features_only"):
            kwargs.setdefault("task", "seg")
        return build_model_with_cfg(
            partial(build, base), name, False, feature_cfg={"out_indices": 3, "feature_cls": "getter"}, **kwargs
        )

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"""`{base}` under TAP at keep rate 0.5.

    Raises:
        UserError: `pretrained=True`, or an argument that does not fit.
    """
    return create


for _name, _base in BASES.items():
    if not is_model(_name):
        register_model(_entrypoint(_name, _base))
