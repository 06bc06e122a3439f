"""AdamW whose learning rate shrinks layer by layer from the head down, and which decays weights only.

The factor of a parameter is ``layer_decay ** (depth + 1 - layer)``: embeddings and tokens are layer 0, block ``i``
(from 1) is layer ``i``, the final norm and the head are layer ``depth + 1`` and learn at the full rate. The register
and its readouts (whatever lives in the reducer) have a factor of their own. Biases, norms, tokens, registers and
position embeddings are not decayed. A method may scale whole parts of the model over its training (`scale_parts`).
"""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from timm.models import group_parameters
from torch import nn
from torch.optim import AdamW, Optimizer

from tap.config.schema import OptimizerConfig
from tap.reducers.base import PartRates

_VIEW = re.compile(r"^views\.\w+\.")
"""What the names of a joint model's parameters begin with, before those of the task's own model."""
_TRUNK = "encoder.vit"
_REDUCER = "encoder.reducer."


def build_optimizer(model: nn.Module, config: OptimizerConfig, batch_size: int) -> AdamW:
    """AdamW over the trainable parameters of `model`.

    Args:
        model: its trunk, where it has one, is ``model.encoder.vit`` (a timm ViT) and its reducer
            ``model.encoder.reducer``; every other parameter counts as head.
        config: rates and decay.
        batch_size: images per optimizer step, for `lr_reference_batch`.
    """
    return AdamW(
        parameter_groups(model, config),
        lr=base_lr(config, batch_size),
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )


def base_lr(config: OptimizerConfig, batch_size: int) -> float:
    """The peak learning rate of the head: linear in the batch size where the settings name a reference batch."""
    return config.lr if config.lr_reference_batch is None else config.lr * batch_size / config.lr_reference_batch


def parameter_groups(model: nn.Module, config: OptimizerConfig) -> list[dict[str, Any]]:
    """Trainable parameters by (part, factor of the rate, weight decay), in the order of their first appearance.

    Returns:
        Groups with ``params``, their ``param_names``, ``part`` (a field of `PartRates`), ``lr_scale`` (read by the
        schedule) and ``weight_decay``.
    """
    scales, undecayed = _scales(model, config), _undecayed(model)
    groups: dict[tuple[str, float, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        plain = parameter.ndim <= 1 or name.endswith(".bias") or name in undecayed
        key = _part(name), scales[name], 0.0 if plain else config.weight_decay
        about = dict(zip(("part", "lr_scale", "weight_decay"), key, strict=True))
        group = groups.setdefault(key, {"params": [], "param_names": [], **about})
        group["params"].append(parameter)
        group["param_names"].append(name)
    return list(groups.values())


def scale_parts(optimizer: Optimizer, rates: PartRates) -> None:
    """Multiplies the rates that the schedule has just set by a method's factors."""
    factors = asdict(rates)
    for group in optimizer.param_groups:
        group["lr"] *= factors[group["part"]]


def _part(name: str) -> str:
    name = _VIEW.sub("", name)
    if name.startswith(_REDUCER):
        return "reducer"
    return "backbone" if name.startswith(f"{_TRUNK}.") else "head"


def _scales(model: nn.Module, config: OptimizerConfig) -> dict[str, float]:
    """Learning-rate factor of every parameter, by its full name."""
    names = [name for name, _ in model.named_parameters()]
    scales = {name: config.controller_lr_scale if _part(name) == "reducer" else 1.0 for name in names}
    trunk = dict(model.named_modules()).get(_TRUNK)
    if trunk is not None:
        # timm's own matcher puts the final norm with the last block; MAE's fine-tuning gives it the head's rate.
        matcher = {"stem": trunk.group_matcher()["stem"], "blocks": r"^blocks\.(\d+)"}
        top = len(trunk.blocks) + 1
        for name, layer in group_parameters(trunk, matcher, reverse=True).items():
            scales[f"{_TRUNK}.{name}"] = config.layer_decay ** (top - layer)
    return scales


def _undecayed(model: nn.Module) -> set[str]:
    """Full names of the parameters that a module of the model declares by timm's ``no_weight_decay()``."""
    names: set[str] = set()
    for prefix, module in model.named_modules():
        if hasattr(module, "no_weight_decay"):
            names |= {f"{prefix}.{name}" if prefix else name for name in module.no_weight_decay()}
    return names
