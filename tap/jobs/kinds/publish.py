"""Tables and figures where a reader looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tap.config.load import load_scale
from tap.config.schema import ScaleConfig
from tap.jobs.arguments import ScaleOption, SpecOption
from tap.jobs.job import Content, Job
from tap.jobs.of_names import Names, NamesArgument
from tap.provenance import publish


class Publish(Job[Names]):
    """Copies them, with a record of its own."""

    name, command = "publish", "publish tables"
    about = "Copy tables to paper_tables and figures to paper_figures, with their records."
    makes: ClassVar[Mapping[str, str]] = {"record": "paper_tables/{table}.record.json"}

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> Names:
        """The table that a rule's output is named by."""
        return (wildcards["table"],)

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
                for path in publish.publish(name, cfg.scale):
                    print(path)

        return call


JOB = Publish()
