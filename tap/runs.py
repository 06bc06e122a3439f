"""What a run is, and where it lives (one definition for the command line and for the workflow)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tap.errors import UserError
from tap.task_facts import TASKS

SCALES = ("smoke", "desk", "paper")
_RUN_ID = re.compile(
    r"(?P<task>[a-z]+)/(?P<method>[a-z0-9_]+)/r(?P<rate>\d\.\d{2})/(?P<variant>[a-z0-9_-]+)/s(?P<seed>\d+)"
)


@dataclass(frozen=True, order=True)
class Run:
    """One measured thing: a training (or an evaluation of somebody else's checkpoint) with its own folder.

    Attributes:
        scale: ``smoke``, ``desk`` or ``paper``.
        task: name of a task, such as ``cls``.
        method: name of the reducer (``dense`` is no pruning, ``mae`` the pre-training of the task's backbone).
        rate: final keep rate rho in (0, 1].
        variant: ``main``, or the name of an ablation.
        seed: seed of the data order, the initialisation and every random draw.
    """

    scale: str
    task: str
    method: str
    rate: float = 1.0
    variant: str = "main"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise UserError(f"scale: '{self.scale}' is not one of {', '.join(SCALES)}")
        if self.task not in TASKS:
            raise UserError(f"task: '{self.task}' is not one of {', '.join(TASKS)}")
        if not 0.0 < self.rate <= 1.0:
            raise UserError(f"keep rate: {self.rate} is outside (0, 1]; give the share of patches to keep, such as 0.5")
        if round(self.rate, 2) != self.rate:
            raise UserError(f"keep rate: {self.rate} has more than two decimals, which run folders do not hold")

    @property
    def id(self) -> str:
        """The run's name within its scale, such as ``cls/tap/r0.50/main/s0``."""
        return f"{self.task}/{self.method}/r{self.rate:.2f}/{self.variant}/s{self.seed}"

    @property
    def folder(self) -> Path:
        """Where the run's published files are, relative to the project's root."""
        return Path("results") / self.scale / "runs" / self.id

    @property
    def scratch(self) -> Path:
        """Where the run resumes from: outside every declared output, so that no rerun deletes days of work."""
        return Path(".tap") / "resume" / self.scale / self.id

    @classmethod
    def parse(cls, scale: str, run_id: str) -> Run:
        """Reads what ``id`` wrote.

        Raises:
            UserError: the text does not have the shape ``task/method/r0.50/variant/s0``.
        """
        match = _RUN_ID.fullmatch(run_id)
        if match is None:
            raise UserError(f"run: '{run_id}' does not look like 'cls/tap/r0.50/main/s0'")
        parts = match.groupdict()
        return cls(scale, parts["task"], parts["method"], float(parts["rate"]), parts["variant"], int(parts["seed"]))
