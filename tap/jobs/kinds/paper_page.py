"""All tables and figures in the paper's order, each beside the printed one: one page, and LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.scale import ScaleConfig
from tap.jobs import code_roots
from tap.jobs.kinds.figure import JOB as FIGURES
from tap.jobs.kinds.figure import drawn
from tap.jobs.kinds.table import JOB as TABLES
from tap.jobs.kinds.table import tables_of
from tap.jobs.of_scales import ScaleJob


class PaperPage(ScaleJob):
    """Sets what is made beside what is printed."""

    name, command = "paper_page", "paper page"
    about = "Write all tables and figures in the paper's order, each beside the printed one: one page, and LaTeX."
    makes: ClassVar[Mapping[str, str]] = {
        suffix: f"results/{{scale}}/tables/paper.{suffix}" for suffix in ("html", "tex", "record.json")
    }

    def settings(self, cfg: ScaleConfig, key: None) -> Any:
        """The scale's name."""
        return {"table": "paper", "scale": cfg.scale}

    def reads(self, cfg: ScaleConfig, key: None) -> Mapping[str, Sequence[Path]]:
        """All of them."""
        return {"tables": TABLES.made(cfg, tuple(tables_of(cfg))), "figures": FIGURES.made(cfg, drawn(cfg))}

    def roots(self, cfg: ScaleConfig, key: None) -> Sequence[str]:
        """The document."""
        return ("tap.paper.document.job:write_document",)

    def libraries(self, key: None) -> tuple[str, ...]:
        """Those of tables."""
        return code_roots.TABULATING

    def run(self, cfg: ScaleConfig) -> None:
        """Writes."""
        from tap.paper.document.job import write_document

        for path in write_document(cfg.scale, stamp=self.stamp(cfg, None)):
            print(path)


JOB = PaperPage()
