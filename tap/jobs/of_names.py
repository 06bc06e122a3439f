"""Jobs that make what has a name, such as a table. Those of one rule share a process."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from tap.config.load import load_scale
from tap.config.scale import ScaleConfig
from tap.jobs.arguments import OutOption, ScaleOption, SpecOption
from tap.jobs.job import Content, Job

Names = tuple[str, ...]
NamesArgument = Annotated[list[str], typer.Argument(help="names, such as tab_cls or fig_insight", metavar="NAME...")]


class NamedJob(Job[Names]):
    """A job with a record for each of several names.

    Attributes:
        wildcard: what a rule calls the name.
    """

    wildcard: ClassVar[str]

    @abstractmethod
    def folder(self, cfg: ScaleConfig) -> Path:
        """Where its files go."""

    @abstractmethod
    def run(self, cfg: ScaleConfig, name: str, folder: Path) -> Sequence[Path]:
        """Makes one of them.

        Returns:
            The files.
        """

    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> Names:
        """The one that a rule's output is named by."""
        return (wildcards[self.wildcard],)

    def fields(self, cfg: ScaleConfig, key: Names) -> Sequence[Mapping[str, str]]:
        """Each name."""
        return [{self.wildcard: name} for name in key]

    def argument(self, key: Names) -> str:
        """The names."""
        return " ".join(key)

    def key_of_record(self, cfg: ScaleConfig, content: Content) -> Names:
        """The one that a record names."""
        return (str(content["parameters"][self.wildcard]),)

    def call(self) -> Callable[..., None]:
        """Takes names, and a folder."""

        def call(
            names: NamesArgument,
            scale: ScaleOption = None,
            out: OutOption = None,
            spec: SpecOption = None,
        ) -> None:
            cfg = load_scale(scale)
            self.require_planned(cfg, tuple(names), spec)
            for name in names:
                for path in self.run(cfg, name, out or self.folder(cfg)):
                    print(path)

        return call
