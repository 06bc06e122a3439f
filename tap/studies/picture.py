"""The picture of a run as a job: what its checkpoint sees, keeps and predicts on a few validation images."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from tap.config.lookup import facts_of
from tap.config.schema import JobSpec
from tap.drawing import default_style
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.engine.run_weights import load_run
from tap.errors import UserError
from tap.plan.runs import run_of
from tap.provenance.record import BY_HAND, Stamp, write_record
from tap.task_facts import TASKS
from tap.tasks.registry import get_task

PICTURE, RECORD = "picture.png", "picture.json"


def run_picture(spec: JobSpec, stamp: Stamp = BY_HAND) -> Path:
    """Draws the published weights of a run: image, truth, prediction, kept patches.

    Raises:
        UserError: the task has no such picture, or the run is not trained.
    """
    module = facts_of(spec.task).drawing
    if not module:
        raise UserError(
            f"picture: task '{spec.task}' has none; name a run of "
            f"{' or '.join(name for name, facts in TASKS.items() if facts.drawing)}"
        )
    draw: Any = importlib.import_module(module).draw  # now, since MMSegmentation and MMDetection take seconds to import
    started, run = datetime.now(UTC), run_of(spec)
    device = select_device(spec.device)
    with cpu_threads(spec.eval.threads):
        model = get_task(spec).build_model(spec)
        weights = load_run(spec, model)
        with default_style():
            picture = draw(model.to(device), spec, run.folder / PICTURE, device)
        write_record(
            run.folder,
            spec,
            stamp,
            inputs=weights,
            outputs=[picture],
            started=started,
            device=describe_device(device),
            threads=torch.get_num_threads(),
            name=RECORD,
        )
    return picture
