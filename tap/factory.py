"""Models for use in one's own code: `tap.create_model`."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError
from torch import nn

from tap.config.messages import explain
from tap.config.schema import ControllerConfig, ModelConfig
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.weights import load_backbone
from tap.errors import UserError
from tap.reducers.base import ReducerSettings
from tap.reducers.build import build_vit
from tap.reducers.registry import get
from tap.task_facts import CLS
from tap.tasks.classification.model import Classifier


def create_model(
    name: str,
    task: str = "cls",
    keep_rate: float = 0.5,
    num_classes: int = 1000,
    method: str = "tap",
    weights: str | Path | None = None,
    sha256: str | None = None,
    image_size: int = 224,
    channels: int = 3,
    drop_path: float = 0.0,
    dynamic_img_size: bool = False,
    controller: ControllerConfig | None = None,
) -> nn.Module:
    """A pretrained ViT under a token-reduction method, ready to train or to run.

    Args:
        name: timm name of a plain Vision Transformer, such as `vit_base_patch16_224.mae`.
        task: `cls`; the dense tasks are built by their pipelines.
        keep_rate: final keep rate rho in (0, 1]; 1 is the dense model.
        num_classes: outputs of the linear head.
        method: reducer by name: `tap`, `static`, `attn_topk`, `random`, `dense`, or a published one of classification
            (`evit`, `dynamicvit`, `evovit`, `ats`, `tome`, `diffrate`, `cropr`) with its public recipe.
        weights: file with backbone weights (public MAE `.pth`, or safetensors); None leaves random weights.
        sha256: hash that the file must have.
        image_size: side of the square input in pixels.
        channels: image channels.
        drop_path: stochastic depth rate of the last block.
        dynamic_img_size: accept any image whose sides are multiples of the patch.
        controller: pruning blocks and initial values of the register; None takes the paper's.

    Returns:
        A module: `model(images)` gives logits, `model(images, return_trace=True)` logits and the pruning decisions.

    Raises:
        UserError: unknown model, method or task, keep rate outside (0, 1], or weights that do not fit.
    """
    if task != CLS.name:
        raise UserError(f"task: create_model builds 'cls' models, not '{task}'; its pipeline builds the others")
    if num_classes < 1:
        raise UserError(f"num_classes: {num_classes} outputs make no classifier; give at least 1")
    controller = controller or ControllerConfig()
    reducer = get(method)
    vit = build_vit(_backbone(name, image_size, channels, drop_path), dynamic_size=dynamic_img_size)
    if weights is not None:
        load_backbone(vit, Path(weights), sha256)
    settings = ReducerSettings(
        width=vit.embed_dim,
        depth=len(vit.blocks),
        keep_rate=keep_rate,
        class_token=vit.has_class_token,
        num_classes=num_classes,
        patches=vit.patch_embed.num_patches,
        **controller.model_dump(),
    )
    return Classifier(SparseEncoder(vit, reducer(settings)), num_classes)


def _backbone(name: str, image_size: int, channels: int, drop_path: float) -> ModelConfig:
    try:
        # A named model brings its own sizes; 1 keeps the patch size out of the checks.
        return ModelConfig(timm_name=name, image_size=image_size, patch_size=1, channels=channels, drop_path=drop_path)
    except ValidationError as error:
        raise UserError(explain(error, ModelConfig, lambda parameter: ("", parameter))) from error
