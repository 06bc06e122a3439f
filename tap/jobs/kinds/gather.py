"""The tidy tables of a task's runs: those of its main table, and its further ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.job import Resources, tabulating
from tap.jobs.of_tasks import TaskJob
from tap.plan.results import results_of_runs, tidy_path
from tap.plan.runs import runs_of_tidy


class Gather(TaskJob):
    """Gathers what was measured."""

    name, command = "gather", "gather"
    about = (
        "Gather what the runs of a task measured into a tidy table (further_TASK: its other keep rates and variants)."
    )
    makes: ClassVar[Mapping[str, str]] = {
        "tidy": "results/{scale}/tidy_{of}.csv",
        "record": "results/{scale}/tidy_{of}.record.json",
    }

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> str:
        """The task, or ``further_`` and the task."""
        return wildcards["of"]

    def fields(self, cfg: ScaleConfig, key: str) -> Sequence[Mapping[str, str]]:
        """What its tidy table is called by."""
        return [{"of": key}]

    def settings(self, cfg: ScaleConfig, key: str) -> Any:
        """The runs that there are."""
        return {"task": key, "runs": sorted(run.id for run in runs_of_tidy(cfg, key))}

    def reads(self, cfg: ScaleConfig, key: str) -> Mapping[str, Sequence[Path]]:
        """What they measured."""
        return {"results": results_of_runs(cfg, key)}

    def roots(self, cfg: ScaleConfig, key: str) -> Sequence[str]:
        """The gathering alone."""
        return ("tap.paper.tidy:write_tidy",)

    def libraries(self, key: str) -> tuple[str, ...]:
        """Those of tables."""
        return code_roots.TABULATING

    def resources(self, cfg: ScaleConfig, key: str) -> Resources:
        """As all jobs on results."""
        return tabulating(cfg)

    def run(self, cfg: ScaleConfig, key: str) -> None:
        """Gathers."""
        from tap.paper.tidy import write_tidy

        print(write_tidy(cfg.scale, key, tidy_path(cfg.scale, key), stamp=self.stamp(cfg, key)))


JOB = Gather()
