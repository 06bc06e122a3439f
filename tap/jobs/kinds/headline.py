"""The numbers that stand for a scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.job import Resources, tabulating
from tap.jobs.of_scales import ScaleJob
from tap.plan.profiles import profiles_in_use
from tap.plan.results import tidy_paths


class Headline(ScaleJob):
    """Writes them for `dvc metrics` and `dvc plots`."""

    name, command = "headline", "headline"
    about = "Write the numbers that stand for a scale, for `dvc metrics` and `dvc plots`."
    makes: ClassVar[Mapping[str, str]] = {
        "json": "results/{scale}/headline.json",
        "csv": "results/{scale}/headline.csv",
        "record": "results/{scale}/headline.record.json",
    }

    def settings(self, cfg: ScaleConfig, key: None) -> Any:
        """The tasks."""
        return {"tasks": [task for task in cfg.tasks if code_roots.is_built(task)]}

    def reads(self, cfg: ScaleConfig, key: None) -> Mapping[str, Sequence[Path]]:
        """The tidy tables."""
        tasks = self.settings(cfg, key)["tasks"]
        return {"tidy": [path for task in tasks for path in tidy_paths(cfg.scale, task)]}

    def also_reads(self, cfg: ScaleConfig, key: None) -> Sequence[Path]:
        """The profiles."""
        return profiles_in_use(cfg, self.settings(cfg, key)["tasks"])

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[None]]:
        """The numbers."""
        return {"tables": [None]}

    def roots(self, cfg: ScaleConfig, key: None) -> Sequence[str]:
        """The headline alone."""
        return ("tap.paper.headline:write_headline",)

    def libraries(self, key: None) -> tuple[str, ...]:
        """Those of tables."""
        return code_roots.TABULATING

    def resources(self, cfg: ScaleConfig, key: None) -> Resources:
        """As all jobs on results."""
        return tabulating(cfg)

    def run(self, cfg: ScaleConfig) -> None:
        """Writes them."""
        from tap.paper.headline import write_headline

        for path in write_headline(cfg.scale, self.settings(cfg, None)["tasks"], stamp=self.stamp(cfg, None)):
            print(path)


JOB = Headline()
