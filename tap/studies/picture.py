"""The picture of a run as a job: what its checkpoint sees, keeps and predicts on a few validation images."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from tap.config.jobs import run_of
from tap.config.schema import JobSpec
from tap.engine.checkpoint import load_weights
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.engine.job import published_weights
from tap.errors import UserError
from tap.provenance.behind import code_of_picture
from tap.provenance.record import write_record
from tap.task_facts import TASKS
from tap.tasks.registry import get_task

PICTURE, RECORD = "picture.png", "picture.json"


def run_picture(spec: JobSpec) -> Path:
    """Draws the published weights of a run: image, truth, prediction, kept patches.

    Raises:
        UserError: the task has no such picture, or the run is not trained.
    """
    module = TASKS[spec.task].drawing
    if not module:
        pictured = " or ".join(name for name, facts in TASKS.items() if facts.drawing)
        raise UserError(f"picture: task '{spec.task}' has none; name a run of {pictured}")
    draw: Any = importlib.import_module(module).draw  # now, since MMSegmentation and MMDetection take seconds to import
    started, run = datetime.now(UTC), run_of(spec)
    weights = published_weights(run)
    device = select_device(spec.device)
    with cpu_threads(spec.profile.threads):
        model = get_task(spec).build_model(spec)
        load_weights(weights, model)
        picture = draw(model.to(device), spec, run.folder / PICTURE, device)
        write_record(
            run.folder,
            spec,
            inputs=[weights],
            outputs=[picture],
            started=started,
            fingerprint=code_of_picture(spec.task, spec.method),
            device=describe_device(device),
            threads=torch.get_num_threads(),
            name=RECORD,
        )
    return picture
