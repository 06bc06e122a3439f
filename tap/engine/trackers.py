"""Curves of trainings: as TensorBoard events, and in Weights & Biases or MLflow for whoever asks for them with
`TAP_TRACKER=wandb` or `mlflow`.

Neither of these two packages is needed: the one that is asked for is imported when a training begins. The variable is
no setting: it changes no result, so it repeats no job.
"""

from __future__ import annotations

import importlib
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tap.errors import UserError
from tap.provenance.files import atomic_write, writing
from tap.provenance.locks import waiting_lock

VARIABLE: Final = "TAP_TRACKER"
PROJECT: Final = "tap"
"""Project or experiment where the user's own variable (`WANDB_PROJECT`, `MLFLOW_EXPERIMENT_NAME`) names none."""
_ID: Final = "tracked_run.txt"
_LOCK: Final = Path(".tap/tracker.lock")


@dataclass(frozen=True)
class Tracker:
    """Where curves go.

    Attributes:
        log: adds a point to each of some curves at a step.
        close: ends the run; says whether it failed.
    """

    log: Callable[[Mapping[str, float], int], object]
    close: Callable[[bool], object]


def tensorboard(folder: Path, done: int) -> Tracker:
    """TensorBoard events of a training, in place of those behind the `done` steps that an earlier process did.

    Raises:
        UserError: the folder cannot be written.
    """
    from torch.utils.tensorboard import SummaryWriter  # a quarter of a second that other commands need not pay

    with writing(folder):
        events = SummaryWriter(str(folder), purge_step=done + 1)

    def log(values: Mapping[str, float], step: int) -> None:
        with writing(folder):  # errors of its thread come out here
            for name, value in values.items():
                events.add_scalar(name, value, step)

    def close(failed: bool) -> None:
        with writing(folder):
            events.close()

    return Tracker(log, close)


def _wandb(title: str, known: str | None) -> tuple[str, Tracker]:
    """A run of Weights & Biases, which has the name that it is given."""
    package: Any = importlib.import_module("wandb")
    project, name = os.environ.get("WANDB_PROJECT", PROJECT), known or uuid.uuid4().hex
    run = package.init(project=project, name=title, id=name, resume="allow", config={"run": title})
    return name, Tracker(lambda values, step: run.log(dict(values), step=step), lambda failed: run.finish(int(failed)))


def _mlflow(title: str, known: str | None) -> tuple[str, Tracker]:
    """A run of MLflow, which names it itself."""
    package: Any = importlib.import_module("mlflow")
    package.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT))
    run = package.start_run(run_id=known) if known else package.start_run(run_name=title)
    return str(run.info.run_id), Tracker(
        lambda values, step: package.log_metrics(dict(values), step=step),
        lambda failed: package.end_run("FAILED" if failed else "FINISHED"),
    )


TRACKERS: Final[Mapping[str, Callable[[str, str | None], tuple[str, Tracker]]]] = {"wandb": _wandb, "mlflow": _mlflow}
"""From a run's title, and what the tracker calls it since before a kill, to what it calls it and the tracker."""


def open_tracker(title: str, state: Path) -> Tracker | None:
    """The tracker that the environment asks for, in the run of before a kill if there was one; None without one.

    Args:
        title: name of the run.
        state: folder that stays as long as the training's resume state; what the tracker calls the run is kept there.

    Raises:
        UserError: a name that is none of the two, a package that is not installed, or what the package says when it
            cannot begin (nobody is logged in, no server answers).
    """
    asked = os.environ.get(VARIABLE, "")
    if not asked:
        return None
    if asked not in TRACKERS:
        raise UserError(f"{VARIABLE}={asked}: not known; choose from {', '.join(TRACKERS)}, or unset it")
    file = state / _ID
    known = file.read_text(encoding="utf-8").strip() if file.is_file() else None
    try:
        # One at a time: trainings that begin together would make MLflow's data base twice, and the second one fails.
        with waiting_lock(_LOCK, lambda: None):
            name, tracker = TRACKERS[asked](title, known)
    except Exception as error:  # of a package that is not ours; nothing is trained yet
        if isinstance(error, ModuleNotFoundError) and error.name == asked:
            mend = f"the package {asked} is not installed here; pip install {asked}"
        else:
            mend = f"{type(error).__name__}: {error}; mend it"
        raise UserError(f"{VARIABLE}={asked}: {mend}, or unset {VARIABLE}") from error
    atomic_write(file, name)
    return tracker
