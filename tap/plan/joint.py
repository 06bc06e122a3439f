"""Joint trainings: one job trains a method of all its tasks on a frozen base and leaves a run of each (TAP-F)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tap.config.lookup import method_of
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.config.variants import JOINT_STARTS, changes_of
from tap.errors import UserError
from tap.runs import Run

_ID: Final = re.compile(r"(?P<method>[a-z0-9_]+)/r(?P<rate>\d\.\d\d)/(?P<variant>[a-z0-9_-]+)/s(?P<seed>\d+)")


@dataclass(frozen=True, order=True)
class JointRun:
    """One joint training: what the runs that it makes have in common.

    Attributes:
        scale, method, rate, variant, seed: as of `Run`.
    """

    scale: str
    method: str
    rate: float
    variant: str
    seed: int

    @property
    def id(self) -> str:
        """Its name within its scale, such as ``tap_f/r0.50/main/s0``."""
        return f"{self.method}/r{self.rate:.2f}/{self.variant}/s{self.seed}"

    @property
    def scratch(self) -> Path:
        """Where it resumes from, outside every declared output."""
        return Path(".tap") / "resume" / self.scale / "joint" / self.id

    def of(self, task: str) -> Run:
        """The run that it makes of a task."""
        return Run(self.scale, task, self.method, self.rate, self.variant, self.seed)

    @classmethod
    def with_run(cls, run: Run) -> JointRun:
        """The training that makes a run."""
        return cls(run.scale, run.method, run.rate, run.variant, run.seed)

    @classmethod
    def parse(cls, scale: str, text: str) -> JointRun:
        """Reads what `id` wrote.

        Raises:
            UserError: the text does not have the shape ``tap_f/r0.50/main/s0``.
        """
        match = _ID.fullmatch(text)
        if match is None:
            raise UserError(f"joint run: '{text}' does not look like 'tap_f/r0.50/main/s0'")
        parts = match.groupdict()
        return cls(scale, parts["method"], float(parts["rate"]), parts["variant"], int(parts["seed"]))


def joint_tasks(cfg: ScaleConfig, method: str) -> list[str]:
    """The tasks that a method trains jointly: all that list it, those that are not to be made included."""
    return [name for name, task in cfg.all_tasks.items() if method in task.methods]


def is_joint(spec: JobSpec) -> bool:
    """Whether a run is one of several that a joint training makes."""
    return method_of(spec.method).frozen


def other_registers(cfg: ScaleConfig, run: Run) -> dict[str, Run]:
    """The runs of the other tasks of a run's joint training, by task; none where all have one register, or have none
    in use."""
    if not method_of(run.method).frozen or run.rate == 1.0:
        return {}
    if changes_of(run.variant).get("options.tap_f.register_of") == "shared":
        return {}
    training = JointRun.with_run(run)
    return {task: training.of(task) for task in joint_tasks(cfg, run.method) if task != run.task}


def joint_start(spec: JobSpec) -> Run | None:
    """The run at keep rate 1 that a joint training goes on from, of the task of `spec`; None where there is none."""
    if not is_joint(spec) or spec.start_from != "joint" or spec.options is None:
        return None
    adapters = getattr(spec.options.of(spec.method), "adapters_of", "own")
    return Run(spec.scale, spec.task, spec.method, 1.0, JOINT_STARTS[adapters], spec.seed)
