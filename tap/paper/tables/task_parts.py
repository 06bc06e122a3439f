"""What TAP-F and TAP-J train of a task's encoder, looked up in built models that hold no memory (meta device).

Heads are left out, as in the paper's table: they are the same in both regimes, and a task's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from timm.models import get_pretrained_cfg
from torch import nn

from tap.config.methods import TAP, TAP_F
from tap.config.model import ModelConfig
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.paper.evidence import Evidence
from tap.paper.tables.table import Known, recomputed
from tap.plan.runs import task_of
from tap.plan.specs import job_spec
from tap.reducers.build import build_encoder, build_vit
from tap.runs import Run
from tap.task_facts import TASKS
from tap.tasks.joint import JointModel, part_of

PARTS = ("backbone", "register", "low_rank", "trunk", "allocation", "recovery")
"""Base backbone; register; updates; what a trunk has and the base lacks; the two readouts."""


class _View(nn.Module):
    """An encoder where a joint model expects a task's whole model."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder


def joint_encoders(cfg: ScaleConfig) -> JointModel | None:
    """The encoders of TAP-F on their base; None where fewer than two tasks have it."""
    tasks = [task for task, settings in cfg.tasks.items() if TAP_F in settings.methods]
    if len(tasks) < 2:
        return None
    with torch.device("meta"):
        specs = {task: job_spec(cfg, Run(cfg.scale, task, TAP_F, cfg.main_rate)) for task in tasks}
        base = {name: tuple(part.shape) for name, part in build_vit(_base(cfg, specs[tasks[0]])).named_parameters()}
        return JointModel({task: _View(build_encoder(spec, TASKS[task])) for task, spec in specs.items()}, base)


def counts(model: JointModel, task: str) -> Mapping[str, int]:
    """Parameters of a task's encoder by part."""
    view, found = model.view(task), Counter(dict.fromkeys(PARTS, 0))
    for name, parameter in view.named_parameters():
        found["backbone" if model.is_base(task, name, parameter) else part_of(name)] += parameter.numel()
    return found


def counts_of_tap(cfg: ScaleConfig, task: str) -> Mapping[str, int]:
    """The same of TAP-J, all of which is trained for the task."""
    with torch.device("meta"):
        encoder = build_encoder(job_spec(cfg, Run(cfg.scale, task, TAP, cfg.main_rate)), TASKS[task])
    found = Counter(dict.fromkeys(PARTS, 0))
    for name, parameter in _View(encoder).named_parameters():
        found["backbone" if name.startswith("encoder.vit.") else part_of(name)] += parameter.numel()
    return found


def own_trunks(evidence: Evidence) -> str:
    """What tasks train beside that in their trunks: tensors that the base lacks, or has in other sizes."""
    joint = joint_encoders(evidence.settings)
    if joint is None:
        return ""
    tasks = [task for task in TASKS if task in joint.tasks]  # settings that were read back have another order
    sizes = ", ".join(f"{task} {counts(joint, task)['trunk']:,}" for task in tasks)
    return (
        "Beside these a task of TAP-F trains what its trunk has and the base lacks (positions of its own grid, "
        f"relative tables): {sizes} parameters."
    )


def owners(model: JointModel, part: str) -> Known:
    """Whether a part is trained, and by whom: whose tensors are the same, and whether a gradient reaches them."""
    held: dict[str, set[int]] = {}
    trained = False
    for task in model.tasks:
        for name, parameter in model.view(task).named_parameters():
            if ("backbone" if model.is_base(task, name, parameter) else part_of(name)) == part:
                held.setdefault(task, set()).add(id(parameter))
                trained |= parameter.requires_grad
    sets = list(held.values())
    one = len(sets) > 1 and bool(set.intersection(*sets))
    if not sets:
        return recomputed("none")
    if not one:
        return recomputed("trainable per task" if trained else "frozen per task")
    return recomputed("shared" if trained else "shared and frozen")


def _base(cfg: ScaleConfig, spec: JobSpec) -> ModelConfig:
    """The plain ViT that is pre-trained: that of the pre-training's task, or timm's own size for a public file."""
    if spec.pretrain.weights is None:
        return task_of(cfg, spec.pretrain.share or spec.task).model.plain
    side = get_pretrained_cfg(str(spec.model.timm_name)).input_size[-1]
    return spec.model.plain.model_copy(update={"image_size": side, "class_token": True})
