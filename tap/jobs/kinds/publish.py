"""Tables and figures where a reader looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tap.config.load import load_scale
from tap.config.scale import ScaleConfig
from tap.jobs.arguments import ScaleOption, SpecOption
from tap.jobs.job import Content, Job
from tap.jobs.kinds import figure, paper_page, paper_pdf, table
from tap.jobs.kinds.table import TABLE_FILES
from tap.jobs.of_names import Names, NamesArgument
from tap.provenance.publish import publish, published


class Publish(Job[Names]):
    """Copies them, with a record of its own."""

    name, command = "publish", "publish tables"
    about = "Copy tables to paper_tables and figures to paper_figures, with their records."
    makes: ClassVar[Mapping[str, str]] = {
        suffix: f"paper_tables/{{table}}{suffix}" for suffix in (*TABLE_FILES, ".record.json")
    }

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> Names:
        """The table that a rule's output is named by."""
        return (wildcards["table"],)

    def fields(self, cfg: ScaleConfig, key: Names) -> Sequence[Mapping[str, str]]:
        """Each name."""
        return [{"table": name} for name in key]

    def made(self, cfg: ScaleConfig, key: Names) -> list[Path]:
        """The copies, figures in a folder of their own."""
        return [published(name).with_name(path.name) for name in key for path in _originals(cfg, name)]

    def reads(self, cfg: ScaleConfig, key: Names) -> Mapping[str, Sequence[Path]]:
        """The originals, with their records."""
        return {"originals": [path for name in key for path in _originals(cfg, name)]}

    def argument(self, key: Names) -> str:
        """The names."""
        return " ".join(key)

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> Names:
        """The table or figure that a record names."""
        parameters = content["parameters"]
        return (str(parameters["figure" if "figure" in parameters else "table"]),)

    def settings(self, cfg: ScaleConfig, key: Names) -> Any:
        """The scale."""
        return {"figure" if key[0].startswith("fig_") else "table": " ".join(key), "scale": cfg.scale}

    def roots(self, cfg: ScaleConfig, key: Names) -> Sequence[str]:
        """A copy, which no code decides."""
        return ()

    def call(self) -> Callable[..., None]:
        """Takes names."""

        def call(names: NamesArgument, scale: ScaleOption = None, spec: SpecOption = None) -> None:
            cfg = load_scale(scale)
            self.require_planned(cfg, tuple(names), spec)
            for name in names:
                for path in publish(name, cfg.scale):
                    print(path)

        return call


def _originals(cfg: ScaleConfig, name: str) -> list[Path]:
    """All files of a table, a figure, or the document of all."""
    document = {"paper": paper_page.JOB, "paper_pdf": paper_pdf.JOB}.get(name)
    if document is not None:
        return document.made(cfg, None)
    return (figure.JOB if name.startswith("fig_") else table.JOB).made(cfg, (name,))


JOB = Publish()
