"""Jobs on one task of a scale."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from tap.config.load import load_scale
from tap.config.scale import ScaleConfig
from tap.jobs.arguments import ScaleOption, SpecOption, TaskArgument
from tap.jobs.job import Content, Job


class TaskJob(Job[str]):
    """A job of which a task has one."""

    @abstractmethod
    def run(self, cfg: ScaleConfig, key: str) -> None:
        """Does it."""

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> str:
        """The task."""
        return wildcards["task"]

    def fields(self, cfg: ScaleConfig, key: str) -> Sequence[Mapping[str, str]]:
        """The task."""
        return [{"task": key}]

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> str:
        """The task that a record names."""
        return str(content["parameters"]["task"])

    def call(self) -> Callable[..., None]:
        """Takes the task."""

        def call(task: TaskArgument, scale: ScaleOption = None, spec: SpecOption = None) -> None:
            cfg = load_scale(scale)
            self.require_planned(cfg, task, spec)
            self.run(cfg, task)

        return call
