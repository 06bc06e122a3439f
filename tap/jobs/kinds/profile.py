"""The profile of a task's methods on this machine, apart from trainings and evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, cast

import typer

from tap.config.load import load_scale
from tap.config.schema import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.arguments import ScaleOption, SpecOption, TaskArgument
from tap.jobs.job import Content, Job, Resources
from tap.plan.profiles import (
    ProfileKey,
    Shapes,
    check_task,
    device_key,
    parameters,
    profiled_methods,
    protocol,
    shapes_of,
)

PROFILE_FOLDER = "results/profiles/{device}/{shapes}"
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda or auto; that of params.yaml if not given")
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
        """The profiling, and every method that it times."""
        methods = profiled_methods(key.shapes, key.task)
        of_models = [root for name in methods for root in code_roots.of_model(key.task, name)]
        return ("tap.profiling.profile:profile_task", *dict.fromkeys(of_models))

    def libraries(self, key: ProfileKey) -> tuple[str, ...]:
        """Those that compute."""
        return code_roots.computing_with(key.task)

    def resources(self, cfg: ScaleConfig, key: ProfileKey) -> Resources:
        """The machine to itself."""
        gpus = 0 if key.device.startswith("cpu-") else 1
        return Resources(1 if key.shapes == "smoke" else None, gpus, 16000, 120)

    def call(self) -> Callable[..., None]:
        """Takes the task, and the device and methods that a person chooses."""

        def call(
            task: TaskArgument,
            device: DeviceOption = None,
            method: MethodOption = None,
            scale: ScaleOption = None,
            spec: SpecOption = None,
        ) -> None:
            check_task(task)
            cfg = load_scale(scale)
            key = key_here(cfg, task, device)
            self.require_planned(cfg, key, spec)
            from tap.profiling.profile import profile_task

            print(profile_task(key, self.stamp(cfg, key), method))

        return call


def key_here(cfg: ScaleConfig, task: str, device: str | None = None) -> ProfileKey:
    """The profile of a task on this machine.

    Raises:
        UserError: a GPU is asked for and there is none.
    """
    shapes = shapes_of(cfg)
    cpu = ProfileKey("cpu-", shapes, task)
    return ProfileKey(device_key(device or cfg.device, protocol(cpu).threads), shapes, task)


JOB = Profile()
