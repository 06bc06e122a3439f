"""The tidy table of a task's runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.schema import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.files import results_of_runs
from tap.jobs.job import Resources, tabulating
from tap.jobs.of_tasks import TaskJob
from tap.plan.runs import runs_of_table


class Gather(TaskJob):
    """Gathers what was measured."""

    name, command = "gather", "gather"
    about = "Gather what the runs of a task measured into one tidy table."
    makes: ClassVar[Mapping[str, str]] = {
        "tidy": "results/{scale}/tidy_{task}.csv",
        "record": "results/{scale}/tidy_{task}.record.json",
    }

    def settings(self, cfg: ScaleConfig, key: str) -> Any:
        """The runs that there are."""
        return {"task": key, "runs": sorted(run.id for run in runs_of_table(cfg, key))}

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
        from tap.paper.tidy import tidy_path, write_tidy

        print(write_tidy(cfg.scale, key, tidy_path(cfg.scale, key), stamp=self.stamp(cfg, key)))


JOB = Gather()
