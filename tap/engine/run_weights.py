"""The published weights of a run, put into its model: all of them, or a frozen base and what a task has beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tap.config.schema import JobSpec
from tap.engine.checkpoint import load_weights
from tap.engine.joint_files import load_alone
from tap.engine.published import published_weights
from tap.plan.joint import is_joint
from tap.plan.runs import run_of
from tap.plan.starts import base_run, given_weights


def load_run(spec: JobSpec, model: Any) -> list[Path]:
    """Fills the model of a run with what its training has published.

    Returns:
        The files read.

    Raises:
        UserError: the run is not trained, a file is not that of its record, or it does not fit.
    """
    path = published_weights(run_of(spec))
    if not is_joint(spec):
        load_weights(path, model)
        return [path]
    base = base_of(spec)
    load_alone(model, spec.task, base, path)
    return [path, base]


def base_of(spec: JobSpec) -> Path:
    """The file with the frozen base of a run.

    Raises:
        UserError: it is not there.
    """
    if spec.pretrain.weights is None:
        return published_weights(base_run(spec))
    return given_weights(spec.pretrain, spec.task)
