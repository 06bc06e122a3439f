"""Jobs of which a scale has one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from tap.config.load import load_scale
from tap.config.scale import ScaleConfig
from tap.jobs.arguments import ScaleOption, SpecOption
from tap.jobs.job import Content, Job


class ScaleJob(Job[None]):
    """A job of a whole scale."""

    @abstractmethod
    def run(self, cfg: ScaleConfig) -> None:
        """Does it."""

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> None:
        """There is only one."""

    def fields(self, cfg: ScaleConfig, key: None) -> Sequence[Mapping[str, str]]:
        """None beside the scale."""
        return [{}]

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> None:
        """There is only one."""

    def call(self) -> Callable[..., None]:
        """Takes nothing but the scale."""

        def call(scale: ScaleOption = None, spec: SpecOption = None) -> None:
            cfg = load_scale(scale)
            self.require_planned(cfg, None, spec)
            self.run(cfg)

        return call
