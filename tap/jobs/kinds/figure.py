"""Figures of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.schema import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.job import Resources, tabulating
from tap.jobs.of_names import NamedJob, Names
from tap.paper.figures.names import FIGURES
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

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[Path]]:
        """Every figure."""
        return {"tables": [self.folder(cfg) / f"{name}{suffix}" for name in FIGURES for suffix in FIGURE_FILES]}

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


JOB = Figure()
