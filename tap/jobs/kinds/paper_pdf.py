"""The document of all tables and figures as a PDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.scale import ScaleConfig
from tap.jobs.kinds.figure import JOB as FIGURES
from tap.jobs.kinds.figure import drawn
from tap.jobs.kinds.paper_page import JOB as PAGE
from tap.jobs.of_scales import ScaleJob


class PaperPdf(ScaleJob):
    """Compiles the LaTeX source."""

    name, command = "paper_pdf", "paper pdf"
    about = "Compile the document of all tables and figures by latexmk or tectonic."
    makes: ClassVar[Mapping[str, str]] = {
        "pdf": "results/{scale}/tables/paper.pdf",
        "record": "results/{scale}/tables/paper_pdf.record.json",
    }

    def settings(self, cfg: ScaleConfig, key: None) -> Any:
        """The scale's name."""
        return {"table": "paper_pdf", "scale": cfg.scale}

    def reads(self, cfg: ScaleConfig, key: None) -> Mapping[str, Sequence[Path]]:
        """The source, and the figures that it takes in."""
        figures = [path for path in FIGURES.made(cfg, drawn(cfg)) if path.suffix == ".pdf"]
        return {"source": [path for path in PAGE.made(cfg, None) if path.suffix == ".tex"], "figures": figures}

    def roots(self, cfg: ScaleConfig, key: None) -> Sequence[str]:
        """What calls the compiler, which is no code of this project."""
        return ("tap.paper.document.job:write_pdf",)

    def run(self, cfg: ScaleConfig) -> None:
        """Compiles."""
        from tap.paper.document.job import write_pdf

        print(write_pdf(cfg.scale, stamp=self.stamp(cfg, None)))


JOB = PaperPdf()
