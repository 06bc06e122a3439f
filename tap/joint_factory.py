"""Several tasks on one frozen backbone in one's own code: `tap.create_joint_model` (TAP-F)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from tap.config.data import DataConfig
from tap.config.detector import DetectorConfig
from tap.config.measuring import EvalConfig
from tap.config.messages import explain
from tap.config.model import ModelConfig
from tap.config.options import MethodOptions
from tap.config.options.tap_f import TapFOptions
from tap.config.register import ControllerConfig
from tap.config.schema import JobSpec, OptimizerConfig, PretrainConfig, TrainConfig
from tap.engine.joint import Member, build_joint
from tap.errors import UserError
from tap.reducers.build import build_vit
from tap.task_facts import TASKS
from tap.tasks.joint import JointModel, Ownership
from tap.tasks.registry import get_task

_TRUNKS: Mapping[str, dict[str, Any]] = {
    "cls": {},
    "seg": {"read_blocks": (3, 6, 9, 12)},
    "det": {
        "class_token": False,
        "window": 14,
        "global_blocks": (3, 6, 9, 12),
        "rel_pos": True,
        "read_blocks": (12,),
        "detector": DetectorConfig(),
    },
}
"""What the paper's pipelines make of the backbone (Sec. Setup)."""
_SIDES: Mapping[str, int] = {"cls": 224, "seg": 512, "det": 1024}


def create_joint_model(
    name: str,
    tasks: Mapping[str, int],
    keep_rate: float = 0.5,
    weights: str | Path | None = None,
    sha256: str | None = None,
    rank: int = 8,
    alpha: float = 8.0,
    register: Ownership = "own",
    adapters: Ownership = "own",
    image_sizes: Mapping[str, int] | None = None,
    model: Mapping[str, Mapping[str, Any]] | None = None,
    controller: ControllerConfig | None = None,
    seed: int = 0,
) -> JointModel:
    """TAP-F: a frozen backbone with a register, low-rank updates and a head for each task, and shared readouts.

    `model(images, task="seg")` runs a task; `model.view(task)` is its whole model for a training loop of one's own,
    `model.single(task)` a merged copy for use alone; `tap.engine.joint_files` saves and loads the base and the tasks.

    Args:
        name: timm name of a plain Vision Transformer, such as `vit_base_patch16_224.mae`.
        tasks: classes of each task's head, by task: `cls`, `seg` (background included), `det`. At least two.
        keep_rate: final keep rate rho in (0, 1]; 1 is the dense model.
        weights: file with backbone weights; None leaves random ones.
        sha256: hash that the file must have.
        rank: rank of the updates.
        alpha: updates are scaled by alpha / rank.
        register, adapters: whether each task has its own, or all have one (tab:factorial).
        image_sizes: side of the square input of a task in pixels; the paper's 224, 512 and 1024 where not given.
        model: other settings of a task's trunk and head by task, as `tap.config.model.ModelConfig` names them.
        controller: pruning blocks and initial values of the registers; None takes the paper's.
        seed: of the initial weights.

    Raises:
        UserError: unknown model or task, a single task, keep rate outside (0, 1], or weights that do not fit.
    """
    unknown = sorted(set(tasks) - set(TASKS))
    if unknown:
        raise UserError(f"tasks: '{unknown[0]}' is not known; choose from {', '.join(TASKS)}")
    members, patch = {}, _patch_size(name)
    for task, classes in tasks.items():
        side = (image_sizes or {}).get(task, _SIDES[task])
        sizes = {
            "timm_name": name,
            "image_size": side,
            "patch_size": patch,
            **_TRUNKS[task],
            **(model or {}).get(task, {}),
        }
        spec = _spec(task, classes, keep_rate, sizes, TapFOptions(rank=rank, alpha=alpha), controller, seed)
        members[task] = Member(get_task(spec), spec)
    return build_joint(members, None if weights is None else Path(weights), sha256, register, adapters)


def _patch_size(name: str) -> int:
    """Side of a patch of timm's model in pixels, from a model without memory."""
    with torch.device("meta"):
        return build_vit(ModelConfig(timm_name=name, image_size=224, patch_size=1)).patch_embed.patch_size[0]


def _spec(
    task: str,
    classes: int,
    keep_rate: float,
    sizes: Mapping[str, Any],
    options: TapFOptions,
    controller: ControllerConfig | None,
    seed: int,
) -> JobSpec:
    """The settings that a pipeline builds its model from; those of data and training are not read for that."""
    try:
        config = ModelConfig(**sizes)
        channels = config.channels
        data = DataConfig(
            name=next(iter(TASKS[task].datasets)).name,  # type: ignore[arg-type]
            root="",
            num_classes=classes,
            mean=(0.5,) * channels,
            std=(0.5,) * channels,
            calibration=0,
        )
        return JobSpec(
            scale="paper",
            task=task,  # type: ignore[arg-type]
            method="tap_f",
            rate=keep_rate,
            variant="main",
            seed=seed,
            device="auto",
            data=data,
            model=config,
            pretrain=PretrainConfig(weights="none"),
            start_from="pretrained",
            controller=controller or ControllerConfig(),
            static_split=(26.8, 33.4, 39.8),
            train=TrainConfig(length=1, batch_size=1, optimizer=OptimizerConfig(lr=1e-4)),
            options=MethodOptions(tap_f=options),
            eval=EvalConfig(batch_size=1),
        )
    except ValidationError as error:
        raise UserError(explain(error, JobSpec, lambda path: ("", f"{task}: {path}"))) from error
