"""How time and memory grow with patches, batch and keep rate on this machine, apart from everything that is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, cast

from tap.config.load import load_scale
from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.arguments import ScaleOption, SpecOption
from tap.jobs.job import Content, Job, Resources
from tap.jobs.kinds.profile import PROFILE_FOLDER, DeviceOption, the_machine
from tap.plan.growth import GrowthKey, growth_parameters, growth_protocol
from tap.plan.profiles import Shapes, device_key, shapes_of


class Growth(Job[GrowthKey]):
    """Times TAP beside the dense encoder over sizes that no task has."""

    name, command = "growth", "growth"
    about = "Profile how time and memory of TAP grow with patches, batch and keep rate on this machine."
    makes: ClassVar[Mapping[str, str]] = {
        "growth": f"{PROFILE_FOLDER}/growth.json",
        "record": f"{PROFILE_FOLDER}/growth.record.json",
    }

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> GrowthKey:
        """Machine and shapes."""
        return GrowthKey(wildcards["device"], cast("Shapes", wildcards["shapes"]))

    def fields(self, cfg: ScaleConfig, key: GrowthKey) -> Sequence[Mapping[str, str]]:
        """The parts of the key."""
        return [key._asdict()]

    def argument(self, key: GrowthKey) -> str:
        """None."""
        return ""

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> GrowthKey:
        """The one that a record names."""
        return self.key(cfg, content["parameters"])

    def settings(self, cfg: ScaleConfig, key: GrowthKey) -> Any:
        """The points."""
        return growth_parameters(key)

    def roots(self, cfg: ScaleConfig, key: GrowthKey) -> Sequence[str]:
        """The growth alone."""
        return ("tap.profiling.growth:profile_growth",)

    def libraries(self, key: GrowthKey) -> tuple[str, ...]:
        """Those that compute."""
        return code_roots.computing_with("cls")

    def resources(self, cfg: ScaleConfig, key: GrowthKey) -> Resources:
        """The machine to itself."""
        return the_machine(key, 60)

    def call(self) -> Callable[..., None]:
        """Takes the device that a person chooses."""

        def call(device: DeviceOption = None, scale: ScaleOption = None, spec: SpecOption = None) -> None:
            cfg = load_scale(scale)
            key = growth_here(cfg, device)
            self.require_planned(cfg, key, spec)
            from tap.profiling.growth import profile_growth

            print(profile_growth(key, self.stamp(cfg, key)))

        return call


def growth_here(cfg: ScaleConfig, device: str | None = None) -> GrowthKey:
    """The growth on this machine.

    Raises:
        UserError: a GPU is asked for and there is none.
    """
    shapes = shapes_of(cfg)[-1]
    return GrowthKey(device_key(device or cfg.device, growth_protocol(GrowthKey("cpu-", shapes)).threads), shapes)


JOB = Growth()
