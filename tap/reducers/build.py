"""Builds an encoder from settings: the timm backbone, the method that prunes it, and its recovery."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from typing import Any

import timm
import torch
from timm.models import get_pretrained_cfg, is_model_in_modules
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from tap.config.model import ModelConfig
from tap.config.schema import JobSpec
from tap.encoder.recovery_buffer import RecoverySettings
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.vitdet import place_on_grid
from tap.errors import UserError
from tap.reducers.base import ReducerSettings
from tap.reducers.registry import get
from tap.seeds import derive_seed
from tap.task_facts import TaskFacts

_FAMILIES = ("vision_transformer", "deit")
"""timm's modules that hold plain Vision Transformers."""


def build_vit(model: ModelConfig, dynamic_size: bool = False) -> VisionTransformer:
    """A backbone without a head, randomly initialised.

    Args:
        model: a timm name, or the sizes of a plain ViT with MAE's conventions (LayerNorm eps 1e-6); with windows or
            relative position, ViTDet's trunk.
        dynamic_size: whether images of any size fit (position embeddings are resized on the fly); a ViTDet trunk always
            takes them.

    Raises:
        UserError: timm does not know the name, it names another kind of model, or the sizes do not fit together.
    """
    if not model.on_grid:
        return _plain_vit(model, dynamic_size)
    size = model.image_size if model.position_grid is None else model.position_grid * model.patch_size
    vit = _plain_vit(model.model_copy(update={"image_size": size}), dynamic_size=True)
    grid = tuple(model.image_size // side for side in vit.patch_embed.patch_size)
    place_on_grid(vit, model.window, model.global_blocks or (), grid, bool(model.rel_pos), bool(model.pad_windows))
    return vit


def _plain_vit(model: ModelConfig, dynamic_size: bool) -> VisionTransformer:
    common: dict[str, Any] = {
        "img_size": model.image_size,
        "in_chans": model.channels,
        "num_classes": 0,
        "drop_path_rate": model.drop_path,
        "dynamic_img_size": dynamic_size,
        "class_token": model.class_token,
        "global_pool": "token" if model.class_token else "avg",
    }
    if model.timm_name is not None:
        return named_vit(model.timm_name, common)
    if model.image_size % model.patch_size:
        raise UserError(f"model: image_size {model.image_size} is not a multiple of patch_size {model.patch_size}")
    if model.width % model.heads:
        raise UserError(f"model: width {model.width} is not a multiple of heads {model.heads}")
    return VisionTransformer(
        patch_size=model.patch_size,
        embed_dim=model.width,
        depth=model.depth,
        num_heads=model.heads,
        mlp_ratio=model.mlp_ratio,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
        fc_norm=False,
        **common,
    )


def named_vit(name: str, options: dict[str, Any]) -> VisionTransformer:
    """timm's model of a name, after everything about it that a person can get wrong.

    Args:
        name: timm name, with or without the part behind the dot.
        options: keyword arguments of timm's `VisionTransformer`.

    Raises:
        UserError: timm does not know the name, it names another kind of model, or its size and patch do not fit.
    """
    if not timm.is_model(name):
        near = get_close_matches(name, timm.list_models("vit*"), n=3)
        raise UserError(f"model: timm does not know '{name}'; near names: {', '.join(near) or 'none'}")
    try:
        get_pretrained_cfg(name)
    except RuntimeError as error:  # timm's way to say that the part behind the dot names no weights
        raise UserError(f"model: {error} leave the part behind the dot out, or name one that timm has") from error
    # Other families do not take these options; what is left of them after that is not run as its own forward would.
    vit = timm.create_model(name, pretrained=False, **options) if is_model_in_modules(name, _FAMILIES) else None
    if type(vit) is not VisionTransformer:
        raise UserError(
            f"model: '{name}' is not a plain Vision Transformer; name one, such as vit_base_patch16_224.mae"
        )
    size, patch = options.get("img_size", vit.patch_embed.img_size), vit.patch_embed.patch_size
    if any(side % patch[axis] for axis, side in enumerate((size, size) if isinstance(size, int) else size)):
        raise UserError(f"model: image_size {size} is not a multiple of the patch size {patch[0]} of '{name}'")
    return vit


def build_encoder(spec: JobSpec, task: TaskFacts, recovery: RecoverySettings | None = None) -> SparseEncoder:
    """The encoder of a job, with every initial weight a function of the job's seed.

    The backbone draws from a stream of its own, so that all methods of one seed start from the same backbone.

    Args:
        spec: the job.
        task: what its task is.
        recovery: how dense reads give removed positions back; None is the method's own way.

    Raises:
        UserError: the task's head reads every position, and the method says nothing of removed ones.
    """
    method = get(spec.method)
    if task.dense and method.method.readout is None:
        raise UserError(
            f"method: '{spec.method}' is not for {task.name}: its file says nothing of what a dense head reads at "
            "removed positions (METHOD.readout)"
        )
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(spec.seed, "backbone"))
        vit = build_vit(spec.model, dynamic_size=task.dense)
        torch.manual_seed(derive_seed(spec.seed, "reducer"))
        options = None if spec.options is None else spec.options.of(spec.method)
        method.prepare_backbone(vit, options)
        reducer = method(
            ReducerSettings(
                width=vit.embed_dim,
                depth=len(vit.blocks),
                keep_rate=spec.rate,
                layers=spec.controller.layers,
                task=task.name,
                class_token=spec.model.class_token,
                dense=task.dense,
                split=spec.static_split,
                seed=spec.seed,
                tau_start=spec.controller.tau_start,
                tau_end=spec.controller.tau_end,
                gumbel=spec.controller.gumbel,
                allocation_bias=spec.controller.allocation_bias,
                recovery_bias=spec.controller.recovery_bias,
                register_std=spec.controller.register_std,
                schedule=spec.controller.schedule,
                selection=spec.controller.selection,
                estimator=spec.controller.estimator,
                rate_weight=spec.controller.rate_weight,
                num_classes=spec.data.num_classes,
                background=task.background,
                patches=(spec.model.image_size // vit.patch_embed.patch_size[0]) ** 2,
                options=options,
            )
        )
    return SparseEncoder(vit, reducer, spec.model.read_blocks, recovery)
