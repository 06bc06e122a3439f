"""A look at a person's own data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from tap.config.datasets import PREPARED
from tap.config.load import load_scale
from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.arguments import ScaleOption, SpecOption, TaskArgument
from tap.jobs.code_roots import built
from tap.jobs.files import task_with
from tap.jobs.job import Content, Job, Resources
from tap.plan.runs import task_of


class Check(Job[str]):
    """Checks the data of a task that the workflow does not fetch."""

    name, command = "check", "data check"
    about = "Look at your own data and weights: counts, classes, files that cannot be read."
    makes: ClassVar[Mapping[str, str]] = {
        "report": "results/{scale}/data/{task}.json",
        "record": "results/{scale}/data/{task}.record.json",
    }

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> str:
        """The task."""
        return wildcards["task"]

    def fields(self, cfg: ScaleConfig, key: str) -> Sequence[Mapping[str, str]]:
        """The task."""
        return [{"task": key}]

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> str:
        """The task with the dataset that a record names."""
        return task_with(cfg, str(content["parameters"]["data"]["name"]))

    def settings(self, cfg: ScaleConfig, key: str) -> Any:
        """Those of the data."""
        return {"data": task_of(cfg, key).data.model_dump(mode="json", exclude={"workers"})}

    def roots(self, cfg: ScaleConfig, key: str) -> Sequence[str]:
        """The check of the dataset."""
        return code_roots.of_data(task_of(cfg, key).data.name)

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[str]]:
        """A person's own data."""
        return {"data": [task for task in built(cfg) if cfg.tasks[task].data.name not in PREPARED]}

    def resources(self, cfg: ScaleConfig, key: str) -> Resources:
        """Hours for millions of images."""
        return Resources(memory_mb=8000, minutes=480)

    def call(self) -> Callable[..., None]:
        """Takes the task, and how thoroughly to look."""

        def call(
            task: TaskArgument,
            scale: ScaleOption = None,
            report: Annotated[
                Path | None, typer.Option("--report", help="file to write the findings to, if nothing is wrong")
            ] = None,
            decode_all: Annotated[
                bool, typer.Option("--decode-all", help="decode every image (hours for ImageNet)")
            ] = False,
            spec: SpecOption = None,
        ) -> None:
            from tap.tasks.given_weights import look_at_weights
            from tap.tasks.preparation import check_data

            cfg = load_scale(scale)
            self.require_planned(cfg, task, spec)
            found = check_data(task_of(cfg, task).data, report, decode_all, self.stamp(cfg, task))
            look_at_weights(found, task, task_of(cfg, task))  # not of the data's record: trainings record them
            print(found.render())
            if not found.ok:
                raise typer.Exit(1)

        return call


JOB = Check()
