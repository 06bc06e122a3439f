"""The tidy table of a task's probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.job import Resources, tabulating
from tap.jobs.of_tasks import TaskJob
from tap.plan.results import results_of_probes


class GatherProbes(TaskJob):
    """Gathers what was probed."""

    name, command = "gather_probes", "probe gather"
    about = "Gather what the probes of a task measured into one tidy table."
    makes: ClassVar[Mapping[str, str]] = {
        "tidy": "results/{scale}/tidy_probes_{task}.csv",
        "record": "results/{scale}/tidy_probes_{task}.record.json",
    }

    def settings(self, cfg: ScaleConfig, key: str) -> Any:
        """None beside the task."""
        return {"task": key}

    def reads(self, cfg: ScaleConfig, key: str) -> Mapping[str, Sequence[Path]]:
        """Values, per-image values and record of every probe."""
        return {"results": results_of_probes(cfg, key)}

    def roots(self, cfg: ScaleConfig, key: str) -> Sequence[str]:
        """The gathering alone."""
        return ("tap.paper.tidy_probes:write_tidy_probes",)

    def libraries(self, key: str) -> tuple[str, ...]:
        """Those of tables."""
        return code_roots.TABULATING

    def resources(self, cfg: ScaleConfig, key: str) -> Resources:
        """As all jobs on results."""
        return tabulating(cfg)

    def run(self, cfg: ScaleConfig, key: str) -> None:
        """Gathers."""
        from tap.paper.tidy_probes import write_tidy_probes

        print(write_tidy_probes(cfg.scale, key, stamp=self.stamp(cfg, key)))


JOB = GatherProbes()
