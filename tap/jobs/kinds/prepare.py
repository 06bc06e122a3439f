"""Data that the workflow fetches and verifies."""

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
from tap.jobs.job import Content, Job
from tap.plan.runs import task_of


class Prepare(Job[str]):
    """Prepares the data of a task. Scales and tasks share their data, and a switch between them repeats nothing."""

    name, command = "prepare", "data prepare"
    about = "Fetch and verify the data of a task; safe to repeat, and goes on after an interruption."
    makes: ClassVar[Mapping[str, str]] = {"manifest": "{root}/manifest.json", "record": "{root}/record.json"}

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> str:
        """A task whose data are in the folder."""
        return prepared_folders(cfg)[wildcards["root"]]

    def fields(self, cfg: ScaleConfig, key: str) -> Sequence[Mapping[str, str]]:
        """The folder of its data."""
        return [{"root": task_of(cfg, key).data.root}]

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> str:
        """A task with the dataset that a record names."""
        return task_with(cfg, str(content["parameters"]["data"]))

    def settings(self, cfg: ScaleConfig, key: str) -> Any:
        """The dataset."""
        return {"data": task_of(cfg, key).data.name}

    def roots(self, cfg: ScaleConfig, key: str) -> Sequence[str]:
        """What prepares the dataset."""
        return code_roots.of_data(task_of(cfg, key).data.name)

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[str]]:
        """Data that the workflow fetches."""
        return {"data": [task for task in built(cfg) if cfg.tasks[task].data.name in PREPARED]}

    def call(self) -> Callable[..., None]:
        """Takes the task, and a folder with the original files."""

        def call(
            task: TaskArgument,
            scale: ScaleOption = None,
            source: Annotated[
                Path | None, typer.Option("--source", help="folder that holds the original files")
            ] = None,
            spec: SpecOption = None,
        ) -> None:
            from tap.tasks.preparation import prepare_data

            cfg = load_scale(scale)
            self.require_planned(cfg, task, spec)
            print(prepare_data(task_of(cfg, task).data, source, self.stamp(cfg, task)))

        return call


def prepared_folders(cfg: ScaleConfig) -> dict[str, str]:
    """Folders with data that the workflow fetches, each with the last task that reads it."""
    return {task.data.root: name for name, task in cfg.all_tasks.items() if task.data.name in PREPARED}


JOB = Prepare()
