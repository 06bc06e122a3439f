"""The profile of a task's methods on this machine, apart from trainings and evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, cast

import typer

from tap.config.load import load_scale
from tap.config.methods import DENSE
from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.jobs import code_roots
from tap.jobs.arguments import ScaleOption, SpecOption, TaskArgument
from tap.jobs.job import Content, Job, Resources
from tap.plan.growth import GrowthKey
from tap.plan.profiles import (
    PROFILES,
    ProfileKey,
    Shapes,
    check_task,
    device_key,
    parameters,
    protocol,
    shaped,
    shapes_of,
)
from tap.plan.runs import task_of

PROFILE_FOLDER = f"{PROFILES}/{{device}}/{{shapes}}"
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda or auto; that of params.yaml if not given")
]
ShapesOption = Annotated[
    str | None, typer.Option("--shapes", help="the scale whose models and images are timed; the paper's if not given")
]
MethodOption = Annotated[
    list[str] | None, typer.Option("--method", help="profile this one beside no pruning (may be repeated); all if none")
]


class Profile(Job[ProfileKey]):
    """Times all methods beside the dense encoder, with random weights at fixed shapes: needs no training."""

    name, command = "profile", "profile"
    about = "Profile every method on this machine: speed, components, memory, operations. Needs no training."
    makes: ClassVar[Mapping[str, str]] = {
        "profile": f"{PROFILE_FOLDER}/{{task}}.json",
        "record": f"{PROFILE_FOLDER}/{{task}}.record.json",
    }

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> ProfileKey:
        """Machine, shapes and task."""
        return ProfileKey(wildcards["device"], cast("Shapes", wildcards["shapes"]), wildcards["task"])

    def fields(self, cfg: ScaleConfig, key: ProfileKey) -> Sequence[Mapping[str, str]]:
        """The parts of the key."""
        return [key._asdict()]

    def argument(self, key: ProfileKey) -> str:
        """The task."""
        return key.task

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> ProfileKey:
        """The one that a record names."""
        return self.key(cfg, content["parameters"])

    def settings(self, cfg: ScaleConfig, key: ProfileKey) -> Any:
        """Shapes and protocol: nothing of a training."""
        return parameters(key)

    def roots(self, cfg: ScaleConfig, key: ProfileKey) -> Sequence[str]:
        """The profiling, and every method that it times; whole files, since `COST` is looked up by its name."""
        methods = dict.fromkeys((DENSE, *task_of(shaped(key.shapes), key.task).methods))
        of_models = [root for name in methods for root in code_roots.of_model(key.task, name)]
        return (
            "tap.profiling.profile:profile_task",
            *dict.fromkeys((*of_models, *(f"tap.reducers.{name}" for name in methods))),
        )

    def libraries(self, key: ProfileKey) -> tuple[str, ...]:
        """Those that compute."""
        return code_roots.computing_with(key.task)

    def resources(self, cfg: ScaleConfig, key: ProfileKey) -> Resources:
        """The machine to itself."""
        return the_machine(key, 120)

    def call(self) -> Callable[..., None]:
        """Takes the task, and the device and methods that a person chooses."""

        def call(
            task: TaskArgument,
            device: DeviceOption = None,
            shapes: ShapesOption = None,
            method: MethodOption = None,
            scale: ScaleOption = None,
            spec: SpecOption = None,
        ) -> None:
            check_task(task)
            cfg = load_scale(scale)
            key = key_here(cfg, task, device, shapes)
            self.require_planned(cfg, key, spec)
            from tap.profiling.profile import profile_task

            print(profile_task(key, self.stamp(cfg, key), method))

        return call


def the_machine(key: ProfileKey | GrowthKey, minutes: int) -> Resources:
    """All cores and a GPU where there is one, for so many minutes; one core for smoke shapes: no time counts there."""
    gpus = 0 if key.device.startswith("cpu-") else 1
    return Resources(1 if key.shapes == "smoke" else None, gpus, 16000, minutes)


def key_here(cfg: ScaleConfig, task: str, device: str | None = None, shapes: str | None = None) -> ProfileKey:
    """The profile of a task on this machine: at the paper's shapes if none are given.

    Raises:
        UserError: a GPU is asked for and there is none, or the scale is not profiled at such shapes.
    """
    known = shapes_of(cfg)
    chosen = next((name for name in known if name == (shapes or known[-1])), None)
    if chosen is None:
        raise UserError(f"shapes: '{shapes}' is not profiled at scale {cfg.scale}; choose from {', '.join(known)}")
    cpu = ProfileKey("cpu-", chosen, task)
    return ProfileKey(device_key(device or cfg.device, protocol(cpu).threads), chosen, task)


JOB = Profile()
