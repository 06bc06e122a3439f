"""Runs whose decisions a person looks at image by image."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tap.config.methods import DENSE, TAP
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.plan.runs import seeds_of, task_of
from tap.plan.specs import job_spec
from tap.runs import Run

PICTURED: Final = ("attn_topk", "cropr", "random", TAP)
"""Methods of the paper's figure of kept patches, in its order."""


def pictured_path(scale: str, task: str) -> Path:
    """Where an image of a task under these methods lies, relative to the project."""
    return Path("results") / scale / "kept_patches" / f"{task}.npz"


def tasks_shown(cfg: ScaleConfig) -> list[str]:
    """Tasks with a method beside no pruning."""
    return [task for task, settings in cfg.tasks.items() if set(settings.methods) - {DENSE}]


def shown_specs(cfg: ScaleConfig, task: str) -> list[JobSpec]:
    """Settings of each method of a task but no pruning, at the main rate, with its first seed.

    Raises:
        UserError: the scale does not have the task.
    """
    methods = [method for method in task_of(cfg, task).methods if method != DENSE]
    return [
        job_spec(cfg, Run(cfg.scale, task, name, cfg.main_rate, seed=seeds_of(cfg, task, name)[0])) for name in methods
    ]
