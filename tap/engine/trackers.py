"""Curves of trainings: as TensorBoard events, and in Weights & Biases or MLflow for whoever asks for them with
`TAP_TRACKER=wandb` or `mlflow`.

Neither of these two packages is needed: the one that is asked for is imported when a training begins. The variable is
no setting: it changes no result, so it repeats no job.
"""

from __future__ import annotations

import importlib
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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


def wandb(title: str, state: Path) -> Tracker:
    """A run of Weights & Biases; a training that goes on after a kill goes on in it.

    Args:
        title: name of the run.
        state: folder of what a resumed training finds again.
    """
    with _needed("wandb"):
        package: Any = importlib.import_module("wandb")
    name = _kept_id(state, lambda: uuid.uuid4().hex)
    project = os.environ.get("WANDB_PROJECT", PROJECT)
    run = package.init(project=project, name=title, id=name, resume="allow", config={"run": title})
    return Tracker(lambda values, step: run.log(dict(values), step=step), lambda failed: run.finish(int(failed)))


def mlflow(title: str, state: Path) -> Tracker:
    """A run of MLflow; a training that goes on after a kill goes on in it.

    Args:
        title: name of the run.
        state: folder of what a resumed training finds again.
    """
    with _needed("mlflow"):
        package: Any = importlib.import_module("mlflow")
    package.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT))
    known = _read_id(state)
    run = package.start_run(run_id=known) if known else package.start_run(run_name=title)
    if known is None:
        _kept_id(state, lambda: str(run.info.run_id))
    return Tracker(
        lambda values, step: package.log_metrics(dict(values), step=step),
        lambda failed: package.end_run("FAILED" if failed else "FINISHED"),
    )


TRACKERS: Final[Mapping[str, Callable[[str, Path], Tracker]]] = {"wandb": wandb, "mlflow": mlflow}


def open_tracker(title: str, state: Path) -> Tracker | None:
    """The tracker that the environment asks for; None where it asks for none.

    Args:
        title: name of the run.
        state: folder that stays as long as the training's resume state.

    Raises:
        UserError: a name that is none of the two, a package that is not installed, or what the package says when it
            cannot begin (nobody is logged in, no server answers).
    """
    asked = os.environ.get(VARIABLE, "")
    if not asked:
        return None
    if asked not in TRACKERS:
        raise UserError(f"{VARIABLE}={asked}: not known; choose from {', '.join(TRACKERS)}, or unset it")
    try:
        # One at a time: trainings that begin together would make MLflow's data base twice, and the second one fails.
        with waiting_lock(_LOCK, lambda: None):
            return TRACKERS[asked](title, state)
    except UserError:
        raise
    except Exception as error:  # of a package that is not ours; nothing is trained yet
        raise UserError(f"{VARIABLE}={asked}: {type(error).__name__}: {error}; mend it, or unset {VARIABLE}") from error


@contextmanager
def _needed(name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(
            f"{VARIABLE}={name}: the package {name} is not installed here; pip install {name}, or unset {VARIABLE}"
        ) from error


def _read_id(state: Path) -> str | None:
    file = state / _ID
    return file.read_text(encoding="utf-8").strip() if file.is_file() else None


def _kept_id(state: Path, new: Callable[[], str]) -> str:
    """The tracker's name of this training's run: the one of before the kill, else a new one, which is kept."""
    known = _read_id(state)
    if known is None:
        known = new()
        atomic_write(state / _ID, known)
    return known
