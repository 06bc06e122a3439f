"""Models for use in one's own code: `tap.create_model` by name, `tap.wrap` around a model that is there already."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tap.config.messages import explain
from tap.config.methods import LEARNED_RECOVERY, METHODS, TAP, WITH_REGISTER, methods_of
from tap.config.model import ModelConfig
from tap.config.register import ControllerConfig
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.weights import class_token_of, load_backbone
from tap.errors import UserError
from tap.huggingface import from_huggingface, is_huggingface
from tap.reducers.base import ReducerSettings
from tap.reducers.build import named_vit
from tap.reducers.registry import get
from tap.task_facts import CLS, TASKS
from tap.vision_transformer import TapVisionTransformer

_OWN_LOGITS = ("dtop",)
"""Methods that answer for the patches that leave, which only their own pipeline puts together."""


def create_model(
    name: str,
    task: str = CLS.name,
    keep_rate: float = 0.5,
    num_classes: int = 1000,
    method: str = TAP,
    weights: str | Path | None = None,
    sha256: str | None = None,
    image_size: int | tuple[int, int] | None = None,
    channels: int = 3,
    drop_path: float = 0.0,
    dynamic_img_size: bool = False,
    controller: ControllerConfig | None = None,
    anneal_steps: int | None = None,
    **vit: Any,
) -> TapVisionTransformer:
    """A pretrained ViT under a token-reduction method, ready to train or to run.

    Args:
        name: timm name of a plain Vision Transformer, such as `vit_base_patch16_224.mae`. It keeps what it is: class
            token, pooling, norms and their eps are the named model's.
        task: `cls`; for a dense head of one's own, `wrap` a timm model with `task="seg"` or `"det"`.
        keep_rate: final keep rate rho in (0, 1]; 1 is the dense model.
        num_classes: outputs of the linear head; 0 gives pooled features.
        method: reducer by name: `tap`, `static`, `attn_topk`, `random`, `dense`, or a published one of classification
            (`evit`, `dynamicvit`, `evovit`, `ats`, `tome`, `diffrate`, `cropr`) with its public recipe.
        weights: file with backbone weights (public MAE `.pth`, or safetensors); None leaves random weights.
        sha256: hash that the file must have.
        image_size: side of the square input in pixels, or height and width; None takes the named model's.
        channels: image channels.
        drop_path: stochastic depth rate of the last block.
        dynamic_img_size: accept any image whose sides are multiples of the patch.
        controller: pruning blocks and initial values of the register; None takes the paper's. Pruning blocks that are
            not given are those at a quarter, half and three quarters of the depth (3, 6, 9 of 12). Its `schedule` is
            that of the static rule as well.
        anneal_steps: training passes over which a model anneals that is never told its progress.
        vit: further keyword arguments of timm's `VisionTransformer`, such as `drop_rate` or `global_pool`.

    Returns:
        A module: `model(images)` gives logits, `model(images, return_trace=True)` logits and the pruning decisions.

    Raises:
        UserError: unknown model, method or task, keep rate outside (0, 1], or weights that do not fit.
    """
    if task != CLS.name:
        raise UserError(
            f"task: create_model builds 'cls' models, not '{task}'; wrap(timm_model, task='seg' or 'det') gives grids "
            "for a head of your own, and the pipelines build whole models"
        )
    vit |= {"in_chans": channels, "drop_path_rate": drop_path, "dynamic_img_size": dynamic_img_size}
    if image_size is not None:
        vit["img_size"] = image_size
    return build(name, task, keep_rate, num_classes, method, weights, sha256, controller, anneal_steps, **vit)


def build(
    name: str,
    task: str = CLS.name,
    keep_rate: float = 0.5,
    num_classes: int = 1000,
    method: str = TAP,
    weights: str | Path | None = None,
    sha256: str | None = None,
    controller: ControllerConfig | None = None,
    anneal_steps: int | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    **vit: Any,
) -> TapVisionTransformer:
    """`create_model` for any task, with timm's names for what concerns the ViT (and where and how it is stored)."""
    if num_classes < 0:
        raise UserError(f"num_classes: {num_classes} outputs make no classifier; give at least 1, or 0 for features")
    _check_sizes(vit.get("img_size", 224), vit.get("in_chans", 3), vit.get("drop_path_rate", 0.0))
    check_method(method, task)
    trunk = named_vit(name, vit | {"num_classes": 0})
    if weights is not None:
        load_backbone(trunk, Path(weights), sha256)
    model = assemble(trunk, num_classes, task, keep_rate, method, controller, anneal_steps)
    return model if device is None and dtype is None else model.to(device=device, dtype=dtype)


def wrap(
    model: nn.Module,
    keep_rate: float = 0.5,
    task: str = CLS.name,
    method: str = TAP,
    controller: ControllerConfig | None = None,
    anneal_steps: int | None = None,
) -> TapVisionTransformer:
    """Puts a register (or another method) on a model that is there already, with its weights and its head.

    Args:
        model: a timm `VisionTransformer` of plain blocks, or Hugging Face's `ViTModel`, `ViTForImageClassification`,
            `Dinov2Model` or `Dinov2WithRegistersModel`. A timm model stays as it is and shares its weights with the
            result; the weights of a Hugging Face model are copied (`tap.huggingface.to_huggingface` writes them back).
        keep_rate: final keep rate rho in (0, 1].
        task: `cls`, or `seg` or `det` for grids (`forward_intermediates`) with a recovery readout that learns.
        method: reducer by name.
        controller: as for `create_model`.
        anneal_steps: as for `create_model`.

    Raises:
        UserError: another kind of model, or a method that does not have the task.
    """
    check_method(method, task)
    if isinstance(model, TapVisionTransformer):
        raise UserError("model: it has a method already; wrap the model that it was made from")
    if is_huggingface(model):
        model = from_huggingface(model)
    if type(model) is not VisionTransformer:
        raise UserError(
            f"model: {type(model).__name__} cannot be wrapped; give a timm VisionTransformer or Hugging Face's ViT or "
            "DINOv2"
        )
    trunk = copy(model)
    for table in ("_modules", "_parameters", "_buffers"):  # the same entries, in tables of its own
        setattr(trunk, table, dict(getattr(model, table)))
    head, trunk.head = model.head, nn.Identity()
    wrapped = assemble(trunk, 0, task, keep_rate, method, controller, anneal_steps, model.num_classes)
    wrapped.head, wrapped.num_classes, trunk.num_classes = head, model.num_classes, 0
    weight = trunk.patch_embed.proj.weight
    return wrapped.to(weight.device, weight.dtype).train(model.training)


def from_pretrained(folder: str | Path) -> TapVisionTransformer:
    """The model of a folder that `save_pretrained` wrote, in evaluation mode.

    Raises:
        UserError: a file is missing or damaged, or is not of such a model.
    """
    return TapVisionTransformer.from_pretrained(folder)


def check_method(method: str, task: str) -> None:
    """Refuses a method for a task that it does not have.

    Raises:
        UserError: the method or the task is not known, or the method does not have the task.
    """
    get(method)
    if task not in TASKS:
        raise UserError(f"task: '{task}' is not known; choose one of {', '.join(TASKS)}")
    own = METHODS[method].tasks
    if task not in own:
        raise UserError(
            f"method: '{method}' does not have the task '{task}', only {', '.join(own)}; choose one of "
            f"{', '.join(methods_of(task))}"
        )
    if method in _OWN_LOGITS:
        raise UserError(
            f"method: '{method}' answers for the patches that leave with logits of its own, which only the "
            "segmentation pipeline puts together; run it by the workflow"
        )


def assemble(
    vit: VisionTransformer,
    num_classes: int,
    task: str = CLS.name,
    keep_rate: float = 0.5,
    method: str = TAP,
    controller: ControllerConfig | None = None,
    anneal_steps: int | None = None,
    auxiliary_classes: int | None = None,
) -> TapVisionTransformer:
    """A ViT, a method and a new head as one model; arguments as for `build`.

    `auxiliary_classes` are those of a method's own heads, where they are not `num_classes`.
    """
    classes = num_classes if auxiliary_classes is None else auxiliary_classes
    encoder = sparse_encoder(vit, task, keep_rate, method, controller, classes)
    return TapVisionTransformer(encoder, num_classes, task, anneal_steps)


def sparse_encoder(
    vit: VisionTransformer,
    task: str,
    keep_rate: float,
    method: str,
    controller: ControllerConfig | None = None,
    num_classes: int = 0,
    read_blocks: Sequence[int] = (),
    recovery: RecoverySettings | None = None,
) -> SparseEncoder:
    """A ViT under a method; arguments as for `build`, and as for `SparseEncoder`.

    `num_classes` are those of a method's own heads; 0 for none.
    """
    depth = len(vit.blocks)
    controller = controller or ControllerConfig()
    if "layers" not in controller.model_fields_set:
        controller = controller.model_copy(update={"layers": default_layers(depth)})
    settings = ReducerSettings(
        width=vit.embed_dim,
        depth=depth,
        keep_rate=keep_rate,
        task=task,
        class_token=vit.has_class_token,
        dense=TASKS[task].dense,
        num_classes=num_classes or None,
        background=TASKS[task].background,
        patches=vit.patch_embed.num_patches,
        split=controller.schedule or ReducerSettings.split,
        **controller.model_dump(exclude={"register_start"}),
    )
    if recovery is None:
        recovery = RecoverySettings() if method in LEARNED_RECOVERY else RecoverySettings(scale=1.0)
    reducer: Any = get(method)(settings)
    if controller.register_start == "class_token" and method in WITH_REGISTER:
        reducer.controller.start_from(class_token_of(vit))
    return SparseEncoder(vit, reducer, read_blocks, recovery)


def default_layers(depth: int) -> tuple[int, ...]:
    """Pruning blocks at a quarter, half and three quarters of the depth; says so where that is not the paper's."""
    layers = tuple(sorted({max(1, depth * quarter // 4) for quarter in (1, 2, 3)}))
    if depth != 12:
        warnings.warn(
            f"a model of {depth} blocks is pruned at blocks {', '.join(map(str, layers))}, a quarter, half and three "
            "quarters of its depth; give controller=ControllerConfig(layers=...) for others",
            stacklevel=2,
        )
    return layers


def _check_sizes(size: Any, channels: int, drop_path: float) -> None:
    try:
        for side in (size,) if isinstance(size, int) else size:
            # A named model brings its own sizes; 1 keeps the patch size out of the checks.
            ModelConfig(image_size=side, patch_size=1, channels=channels, drop_path=drop_path)
    except ValidationError as error:
        raise UserError(explain(error, ModelConfig, lambda parameter: ("", parameter))) from error
