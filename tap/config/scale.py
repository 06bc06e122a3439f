"""All settings of a scale, as pydantic models that know names, types, ranges and defaults.

A *scale file* (`workflow/scales/<scale>.yaml`) fills `ScaleConfig`. `params.yaml` (`Params`) picks the scale and
overrides single values of it. The JSON schemas and the documented default file are generated from here
(`tap config generate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from tap.config.joint import JointConfig
from tap.config.methods import methods_of
from tap.config.register import ControllerConfig
from tap.config.sharing import check_joint, check_shared_backbone
from tap.config.strict import Strict
from tap.config.task import TaskConfig
from tap.config.values import KeepRate, Scale, TaskName, check_blocks, check_distinct
from tap.config.variants import VARIANTS


class ScaleConfig(Strict):
    """Everything that one scale fixes."""

    scale: Scale = Field(description="name of the scale, the file's own")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto takes a GPU where there is one")
    processes: int = Field(
        1, ge=1, description="processes (GPUs) of one training, where its task says no other; torchrun starts several"
    )
    main_rate: KeepRate = Field(0.5, description="keep rate of every method in the main tables")
    keep_rates: tuple[KeepRate, ...] = Field((0.3, 0.5, 0.7), description="keep rates of TAP-J and TAP-F")
    variants: tuple[str, ...] = Field((), description="ablations to make beside the main runs (tap/config/variants.py)")
    controller: ControllerConfig = ControllerConfig()
    static_split: tuple[float, ...] = Field(
        (26.8, 33.4, 39.8), description="shared schedule of the static rule: percent of the budget per pruning block"
    )
    tasks: dict[TaskName, TaskConfig] = Field(min_length=1, description="the pipelines of this scale")
    joint: JointConfig | None = Field(None, description="TAP-F's trainings; null where no task lists it")
    profile_device: str | None = Field(
        None,
        description="machine whose profiles tables show, a folder of results/profiles; null takes the first GPU there, "
        "else the first CPU",
    )
    _behind: dict[str, TaskConfig] = PrivateAttr(default_factory=dict)

    @property
    def all_tasks(self) -> dict[str, TaskConfig]:
        """The tasks to make, and those that `params.yaml` left out: what is made may need their data, too."""
        return {**self.tasks, **self._behind}

    def processes_of(self, task: str | None) -> int:
        """Processes of one training of a task; None asks for a joint one."""
        own = self.all_tasks[task].processes if task is not None else self.joint and self.joint.processes
        return own or self.processes

    def only(self, tasks: Sequence[str]) -> ScaleConfig:
        """The settings with some of the tasks to make."""
        chosen = self.model_copy(update={"tasks": {task: self.tasks[task] for task in tasks}})  # type: ignore[index]
        chosen._behind = {name: task for name, task in self.all_tasks.items() if name not in tasks}
        return chosen

    @model_validator(mode="after")
    def _consistent(self) -> ScaleConfig:
        layers = self.controller.layers
        if len(self.static_split) != len(layers) or abs(sum(self.static_split) - 100) > 1e-6:
            raise ValueError(f"static_split must hold {len(layers)} percentages that sum to 100, one per pruning block")
        check_distinct("keep_rates", self.keep_rates)
        check_distinct("variants", self.variants)
        strange = [name for name in self.variants if name not in VARIANTS]
        if strange:
            near = get_close_matches(strange[0], VARIANTS, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise ValueError(f"variants: '{strange[0]}' is not known; {hint}choose from {', '.join(VARIANTS)}")
        for name, task in self.tasks.items():
            check_shared_backbone(name, task, self.tasks)
            check_blocks(f"tasks.{name}: controller.layers", layers, task.model.depth)
            in_windows = set(layers).difference(task.model.global_blocks or ()) if task.model.window else ()
            if in_windows:
                raise ValueError(
                    f"tasks.{name}: controller.layers names block {min(in_windows)}, which attends within windows; "
                    "prune at blocks of model.global_blocks"
                )
            named = {"methods": task.methods, "tune.methods": task.tune.methods or (), "chosen": tuple(task.chosen)}
            for where, methods in named.items():
                if unknown := [method for method in methods if method not in methods_of(name)]:
                    known = ", ".join(methods_of(name))
                    raise ValueError(
                        f"tasks.{name}.{where}: '{unknown[0]}' is not a method of this task; known: {known}"
                    )
        check_joint(self.joint, self.tasks)
        return self


class Params(Strict):
    """What a person edits: `params.yaml`."""

    scale: Scale = Field("desk", description="which file of workflow/scales/ is used")
    tasks: tuple[TaskName, ...] | None = Field(None, description="tasks to make; null makes all that the scale has")
    overrides: dict[Scale, dict[str, Any]] = Field(
        {}, description="values that replace those of workflow/scales/<scale>.yaml, by dotted name, per scale"
    )
