"""The backbone `TapViT` of MMSegmentation and MMDetection: a ViT under a method, read as maps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.model import BaseModule
from mmengine.registry import MODELS
from pydantic import ValidationError
from torch import Tensor, nn

from tap.config.messages import explain
from tap.config.methods import LEARNED_RECOVERY, TAP, WITH_REGISTER
from tap.config.model import ModelConfig
from tap.config.register import ControllerConfig
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.weights import class_token_of, load_backbone, read_tensors
from tap.errors import UserError
from tap.factory import check_method, sparse_encoder
from tap.reducers.base import Reducer
from tap.reducers.build import build_vit
from tap.reducers.registry import get
from tap.task_facts import DET, SEG, TASKS

_ENDPOINTS = {SEG.name: 1.0, DET.name: 0.0}
"""Alpha of methods that do not learn one (Sec. Baseline provenance and common recovery)."""

_ALIASES = ("cls_token", "pos_embed", "patch_embed", "layers")


# OpenMMLab's constructor of layer-wise rates knows the backbones by name: the class must be called MAE, its blocks
# `layers`, its embeddings as below. The configuration's name is `TapViT`.
@MODELS.register_module(name="TapViT")
class MAETapViT(BaseModule):
    """Complete grids of a sparse encoder as feature maps, for any neck or head.

    A training needs `custom_hooks=[dict(type="TapProgressHook")]`: temperatures and warm-ups follow its progress.

    Args:
        model: what `ModelConfig` takes: `timm_name` and `image_size`, or the sizes of a plain ViT; with `window`,
            `global_blocks` and `rel_pos`, ViTDet's trunk (`class_token=False`).
        task: `seg` or `det`: what the register is for.
        keep_rate: final keep rate rho in (0, 1]; 1 is the dense model.
        method: one that gives removed patches a place on a grid, without losses of its own: `tap`, `static`,
            `attn_topk`, `random`, `tome`, `dense`.
        out_indices: blocks whose grids are the maps, counted from 0 as everywhere in OpenMMLab.
        controller: what `ControllerConfig` takes; blocks in `layers` are counted from 1, as in the paper.
        endpoint: the one recovery scale of methods that learn none; None is the paper's for the task.
        init_cfg: `dict(type="Pretrained", checkpoint=..., sha256=...)` with a file of backbone weights (public MAE or
            timm, or the `model.safetensors` of one of this project's runs, with its register and readouts).

    Raises:
        UserError: settings that do not fit, or a method that cannot be a backbone.
    """

    def __init__(
        self,
        model: dict[str, Any],
        task: str,
        keep_rate: float = 0.5,
        method: str = TAP,
        out_indices: Sequence[int] = (2, 5, 8, 11),
        controller: dict[str, Any] | None = None,
        endpoint: float | None = None,
        init_cfg: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(init_cfg)
        _check(method, task)
        settings = _parsed(ModelConfig, model, "model")
        control = _parsed(ControllerConfig, controller or {}, "controller")
        if control.estimator == "independent":
            raise UserError(
                "controller.estimator: independent gates have a loss of their own; run them by the workflow"
            )
        vit = build_vit(settings, dynamic_size=True)
        vit.norm = vit.fc_norm = nn.Identity()  # for classifiers; necks and heads have norms of their own
        alpha = _ENDPOINTS[task] if endpoint is None else endpoint
        self.out_indices = tuple(out_indices)
        self._register_start = control.register_start if method in WITH_REGISTER else None
        encoder = sparse_encoder(
            vit,
            task,
            keep_rate,
            method,
            control,
            read_blocks=[index + 1 for index in self.out_indices],
            recovery=RecoverySettings() if method in LEARNED_RECOVERY else RecoverySettings(scale=alpha),
        )
        # First, so that parameters have these names wherever each is listed once, as in optimizers.
        self.cls_token, self.pos_embed = vit.cls_token, vit.pos_embed
        self.patch_embed, self.layers = vit.patch_embed, vit.blocks
        self.encoder = encoder
        self.register_state_dict_post_hook(_drop_aliases)
        self.register_load_state_dict_pre_hook(_add_aliases)

    def init_weights(self) -> None:
        """Reads the file of `init_cfg`, as MMEngine asks before a training; without one, timm's start stays.

        Raises:
            UserError: no such file, another hash, or weights that do not fit.
        """
        if self.init_cfg is None or self._is_init:
            return
        given = dict(self.init_cfg)
        if given.pop("type", None) != "Pretrained" or "checkpoint" not in given:
            raise UserError(
                "init_cfg: give dict(type='Pretrained', checkpoint=FILE), best with sha256, or leave it out"
            )
        path, sha256 = Path(given["checkpoint"]), given.get("sha256")
        own = {
            name.removeprefix("encoder."): tensor
            for name, tensor in read_tensors(path, sha256).items()
            if name.startswith("encoder.")
        }
        if not any(name.startswith("reducer.") for name in own):
            load_backbone(self.encoder.vit, path, sha256)
            if self._register_start == "class_token":
                self.encoder.reducer.controller.start_from(class_token_of(self.encoder.vit))
        else:
            try:
                self.encoder.load_state_dict(own)
            except RuntimeError as error:
                raise UserError(f"{path}: is a run of another model or method: {error}") from error
        self._is_init = True

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """`(B, C, H, W)`, sides multiples of the patch, to one map `(B, d, h, w)` for each of `out_indices`."""
        reducer = self.encoder.reducer
        if self.training and not reducer.progress_is_told:
            reducer.progress_is_told = True
            warnings.warn(
                "TapViT is not told how far its training is: temperatures stay at their start; add "
                "custom_hooks=[dict(type='TapProgressHook')]",
                stacklevel=2,
            )
        output = self.encoder(images)
        return tuple(grid.transpose(1, 2).unflatten(2, output.size) for grid in output.grids)


def _check(method: str, task: str) -> None:
    """Refuses what cannot be a backbone."""
    if task in TASKS and not TASKS[task].dense:
        raise UserError(f"task: '{task}' reads no maps; use tap.create_model for it, and TapViT for seg and det")
    check_method(method, task)
    own_losses = get(method).losses is not Reducer.losses and method != TAP  # TAP's are of an ablation alone
    if own_losses or get(method).method.calibrated:
        raise UserError(
            f"method: '{method}' has a loss or a threshold of its own, which a backbone cannot bring into another "
            "model's training; choose 'tap', 'static', 'attn_topk', 'random', 'tome' or 'dense', or run it by the "
            "workflow"
        )


def _parsed(kind: Any, given: dict[str, Any], name: str) -> Any:
    try:
        return kind(**given)
    except ValidationError as error:
        raise UserError(explain(error, kind, lambda parameter: ("", f"{name}.{parameter}"))) from error


def _inner(prefix: str, name: str) -> str | None:
    """The encoder's own name of a tensor with a name of OpenMMLab's; None for any other."""
    plain = name.removeprefix(prefix)
    if not name.startswith(prefix) or plain.split(".")[0] not in _ALIASES:
        return None
    head, *rest = plain.split(".")
    return ".".join([f"{prefix}encoder.vit", "blocks" if head == "layers" else head, *rest])


def _drop_aliases(_: nn.Module, state: dict[str, Any], prefix: str, *__: Any) -> None:
    """Each tensor is saved once, by the encoder's name, which the project's own runs have."""
    for name in [name for name in state if _inner(prefix, name) is not None]:
        del state[name]


def _add_aliases(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    own = {name for name, _ in module.named_parameters(prefix.removesuffix("."), remove_duplicate=False)}
    own |= {name for name, _ in module.named_buffers(prefix.removesuffix("."), remove_duplicate=False)}
    for name in own:
        inner = _inner(prefix, name)
        if inner in state and name not in state:
            state[name] = state[inner]
