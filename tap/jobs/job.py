"""What a kind of job is: said once, in one file of this package, and read by all that deal with jobs.

The command line takes a job's command from it, a rule of the workflow its files, parameters and resources, its record
the stamp, `tap verify` what the workflow would use today. Nothing heavy is imported until a job runs.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.plan.runs import task_of
from tap.provenance.fingerprint import code_fingerprint
from tap.provenance.record import Stamp

Key = TypeVar("Key")
Content = Mapping[str, Any]
"""The parts of a record."""


@dataclass(frozen=True)
class Resources:
    """What a job takes of a machine.

    Attributes:
        threads: CPU threads; None is the whole machine, so that nothing disturbs a measurement of time.
        gpus: GPUs.
        memory_mb: memory in MB.
        minutes: time that it needs at most.
    """

    threads: int | None = 1
    gpus: int = 0
    memory_mb: int = 2000
    minutes: int = 30


def evaluating(cfg: ScaleConfig, task: str) -> Resources:
    """What passes over a task's images take. They measure no time, so others may run beside them."""
    gpus = 1 if cfg.device == "cuda" else 0
    return Resources(task_of(cfg, task).eval.threads, gpus, *((64000, 240) if cfg.scale == "paper" else (4000, 60)))


def evaluating_long(cfg: ScaleConfig, task: str) -> Resources:
    """`evaluating` of what passes over every image many times, for hours on a large data set."""
    found = evaluating(cfg, task)
    return replace(found, minutes=1440) if cfg.scale == "paper" else found


def tabulating(cfg: ScaleConfig) -> Resources:
    """What jobs on results take: at the paper's scale they resample the values of fifty thousand images."""
    return Resources(memory_mb=16000, minutes=240) if cfg.scale == "paper" else Resources(memory_mb=2000, minutes=30)


RECORDS = ("record", "record.json", ".record.json")
"""What `makes` calls the record of a job."""


class Job(ABC, Generic[Key]):
    """One kind of job. `Key` says which one of the kind: a run, a task, the name of a table.

    Attributes:
        name: how records call the kind.
        command: its words on the command line.
        about: help of the command.
        makes: its files below the project's root by short names, with ``{scale}`` and the wildcards of the rule.
    """

    name: ClassVar[str]
    command: ClassVar[str]
    about: ClassVar[str]
    makes: ClassVar[Mapping[str, str]]

    @abstractmethod
    def key(self, cfg: ScaleConfig, wildcards: Mapping[str, str]) -> Key:
        """Which job makes the files of some wildcards."""

    @abstractmethod
    def key_of_record(self, cfg: ScaleConfig, content: Content) -> Key:
        """Which job a record is of."""

    @abstractmethod
    def settings(self, cfg: ScaleConfig, key: Key) -> Any:
        """What the job reads of the settings, as JSON values: an edit of anything else repeats nothing."""

    @abstractmethod
    def roots(self, cfg: ScaleConfig, key: Key) -> Sequence[str]:
        """Definitions that its code starts from, as `code_fingerprint` takes them; none where no code decides."""

    @abstractmethod
    def call(self) -> Callable[..., None]:
        """The function behind the command, with the arguments that a person gives."""

    def commands(self) -> Mapping[str, tuple[str, Callable[..., None]]]:
        """Its commands, each with its help and the function behind it."""
        return {self.command: (self.about, self.call())}

    def argument(self, key: Key) -> str:
        """What the command line calls it by."""
        return str(key)

    @abstractmethod
    def fields(self, cfg: ScaleConfig, key: Key) -> Sequence[Mapping[str, str]]:
        """The wildcards of the files that it makes, the inverse of `key`; several where it makes them of several."""

    def made(self, cfg: ScaleConfig, key: Key) -> list[Path]:
        """The files that it makes."""
        fields = [{"scale": cfg.scale, **some} for some in self.fields(cfg, key)]
        return [Path(pattern.format(**some)) for some in fields for pattern in self.makes.values()]

    def record(self, cfg: ScaleConfig, key: Key) -> Path:
        """The record of what it makes, of the first where it has several."""
        (pattern,) = [pattern for name, pattern in self.makes.items() if name in RECORDS]
        return Path(pattern.format(scale=cfg.scale, **self.fields(cfg, key)[0]))

    def reads(self, cfg: ScaleConfig, key: Key) -> Mapping[str, Sequence[Path]]:
        """The files that it reads, by short names; those of the package are named where they are no code."""
        return {}

    def also_reads(self, cfg: ScaleConfig, key: Key) -> Sequence[Path]:
        """Files that it reads where they are there, such as profiles of machines: it is done again where one comes or
        changes, and starts no job that would make one."""
        return ()

    def stages(self, cfg: ScaleConfig) -> Mapping[str, Sequence[Key]]:
        """The jobs of the kind at a scale, by the stage of `dvc.yaml` that asks for what they make; none by default."""
        return {}

    def libraries(self, key: Key) -> tuple[str, ...]:
        """Distributions whose version counts as code."""
        return ()

    def resources(self, cfg: ScaleConfig, key: Key) -> Resources:
        """What it takes of a machine."""
        return Resources()

    def recorded(self, content: Content) -> Any:
        """The settings that a record tells of, in the form of `settings`."""
        return content["parameters"]

    def code(self, cfg: ScaleConfig, key: Key) -> str:
        """Fingerprint of the code behind it; empty where no code decides anything.

        Raises:
            UserError: the code is not there yet.
        """
        roots = self.roots(cfg, key)
        return code_fingerprint(list(roots), self.libraries(key)) if roots else ""

    def stamp(self, cfg: ScaleConfig, key: Key) -> Stamp:
        """What its record says of the job itself."""
        return Stamp(self.name, self.code(cfg, key), self.settings(cfg, key), self.libraries(key))

    def planned(self, cfg: ScaleConfig, key: Key) -> str:
        """`settings` as the line of JSON that a rule carries as a parameter and hands over as `--spec`."""
        return json.dumps(self.settings(cfg, key), sort_keys=True, separators=(",", ":"))

    def require_planned(self, cfg: ScaleConfig, key: Key, spec: str | None) -> None:
        """Refuses a job that was planned with settings that are not in use any more.

        Args:
            cfg: the settings in use.
            key: which job.
            spec: what the rule has handed over; None if a person has given the command.

        Raises:
            UserError: names the first setting that differs.
        """
        if spec is None:
            return
        try:
            planned = json.loads(spec)
        except json.JSONDecodeError as error:
            raise UserError(
                f"--spec: is not JSON ({error}); leave it out to use the settings of params.yaml"
            ) from error
        changed = first_difference(planned, json.loads(self.planned(cfg, key)))
        if changed is not None:
            raise UserError(f"params.yaml: changed since the workflow was planned: {changed}; start snakemake again")


def first_difference(before: Any, now: Any, name: str = "") -> str | None:
    """The first value that differs, by its dotted name."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted(before.keys() | now.keys()):
            found = first_difference(before.get(key), now.get(key), f"{name}.{key}" if name else str(key))
            if found is not None:
                return found
        return None
    return None if before == now else f"{name} was {_short(before)}, is {_short(now)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
