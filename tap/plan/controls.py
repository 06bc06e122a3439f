"""The controls of trained TAP checkpoints: which runs have them, what their jobs read, and where the results lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tap.config.methods import TAP, TAP_F
from tap.config.scale import ScaleConfig
from tap.plan.runs import task_of
from tap.plan.specs import job_spec, settings_of
from tap.runs import Run

CONTROLLED: Final = (TAP_F, TAP)
"""Methods with a register, in the order of the paper's tables."""

VALUES, ARRAYS = "controls.csv", "controls.npz"
"""In the folder of the run."""

OF_IMAGES: Final = "."
"""Between the name of a control and that of a per-image array, in `ARRAYS`."""


def controlled_runs(cfg: ScaleConfig, task: str) -> list[Run]:
    """The checkpoints of a task that are controlled: TAP at the main rate, every seed.

    Raises:
        UserError: the scale does not have the task.
    """
    settings = task_of(cfg, task)
    methods = [method for method in CONTROLLED if method in settings.methods]
    return [Run(cfg.scale, task, method, cfg.main_rate, seed=seed) for method in methods for seed in settings.seeds]


def control_parameters(cfg: ScaleConfig, run: Run) -> Mapping[str, Any]:
    """What the controls of a run read of the settings, as plain values.

    Raises:
        UserError: the run is not one that the settings know.
    """
    spec = settings_of(job_spec(cfg, run).model_dump(mode="json"), "evaluate")
    controls = task_of(cfg, run.task).controls.model_dump(mode="json")
    return {"run": run.id, "spec": spec, "controls": controls}


def files_of_controls(cfg: ScaleConfig, task: str) -> list[Path]:
    """What the controls of a task's checkpoints give."""
    return [run.folder / name for run in controlled_runs(cfg, task) for name in (VALUES, ARRAYS)]
