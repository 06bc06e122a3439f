"""Figures of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.code_roots import built
from tap.jobs.job import Resources, tabulating
from tap.jobs.of_names import NamedJob, Names
from tap.paper.figures.names import GROUPS
from tap.plan.growth import GROWTH
from tap.plan.profiles import profiles_in_use
from tap.plan.results import files_behind
from tap.provenance.publish import figures_folder

FIGURE_FILES = (".pdf", ".png", ".svg", ".csv", ".caption.md", ".record.json")


class Figure(NamedJob):
    """Draws figures from the tidy tables."""

    name, command, wildcard = "figure", "figure", "figure"
    about = "Draw figures of the paper from the runs, as PDF, PNG and SVG, with the CSV behind them."
    makes: ClassVar[Mapping[str, str]] = {
        suffix: f"results/{{scale}}/figures/{{figure}}{suffix}" for suffix in FIGURE_FILES
    }

    def settings(self, cfg: ScaleConfig, key: Names) -> Any:
        """None beside the name."""
        return {"figure": " ".join(key), "scale": cfg.scale}

    def reads(self, cfg: ScaleConfig, key: Names) -> Mapping[str, Sequence[Path]]:
        """What its group is made from: all of `key` are of one."""
        return files_behind(cfg, GROUPS[key[0]], built(cfg))

    def also_reads(self, cfg: ScaleConfig, key: Names) -> Sequence[Path]:
        """Profiles, of those that show them: of growth, or of the tasks."""
        shown = {GROUPS.get(name) for name in key}
        return profiles_in_use(
            cfg, [*([GROWTH] if "profiles" in shown else []), *(cfg.tasks if "rates" in shown else [])]
        )

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[Names]]:
        """Every figure; the growth of a machine where it was measured."""
        return {"tables": [(name,) for name in drawn(cfg)]}

    def roots(self, cfg: ScaleConfig, key: Names) -> Sequence[str]:
        """What draws figures, and the files of these."""
        return ("tap.paper.figures.build:build_figure", *(f"tap.paper.figures.{name}:FIGURE" for name in key))

    def libraries(self, key: Names) -> tuple[str, ...]:
        """Those of tables, and those that draw."""
        return (*code_roots.TABULATING, *code_roots.DRAWING)

    def resources(self, cfg: ScaleConfig, key: Names) -> Resources:
        """As all jobs on results."""
        return tabulating(cfg)

    def folder(self, cfg: ScaleConfig) -> Path:
        """The scale's figures."""
        return figures_folder(cfg.scale)

    def run(self, cfg: ScaleConfig, name: str, folder: Path) -> Sequence[Path]:
        """Draws one."""
        from tap.paper.figures.build import build_figure

        stem = name.replace(":", "_").replace("-", "_")
        return build_figure(name, cfg.scale, folder, stamp=self.stamp(cfg, (stem,)))


def drawn(cfg: ScaleConfig) -> tuple[str, ...]:
    """The figures that a scale draws: all, but the growth of a machine only where it was measured."""
    return tuple(name for name, group in GROUPS.items() if group != "profiles" or profiles_in_use(cfg, [GROWTH]))


JOB = Figure()
