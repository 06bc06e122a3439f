"""An evaluation as a job: from the published weights of a run to its metrics and per-image values."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch

from tap.config.lookup import method_of
from tap.config.schema import JobSpec
from tap.encoder.low_rank import is_low_rank
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.engine.published import published_weights
from tap.engine.register_start import start_register
from tap.engine.run_weights import load_run
from tap.plan.endpoints import endpoint_file
from tap.plan.pretraining import is_pretraining
from tap.plan.runs import run_of
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, Stamp, write_record
from tap.runs import Run
from tap.studies.register_diagnostics import own_register, register_in, register_metrics
from tap.tasks.base import Task

METRICS, PER_SAMPLE, RECORD = "metrics.json", "per_sample.npz", "evaluation.json"


def evaluate_run(
    spec: JobSpec, task: Task, stamp: Stamp = BY_HAND, other_runs: Mapping[str, Run] | None = None
) -> None:
    """Evaluates the published weights of a run on the validation split.

    Writes ``metrics.json`` (flat: numbers, and facts in words), ``per_sample.npz`` and the record of the job.

    Args:
        spec: the run.
        task: its pipeline.
        stamp: what the record says of the job.
        other_runs: the same joint training's runs of the other tasks, whose registers are held against its own.

    Raises:
        UserError: the run is not trained, its weights are not those of its record, data are missing, or the folder
            cannot be written. Nothing that was published before is touched then.
    """
    started, run = datetime.now(UTC), run_of(spec)
    device = select_device(spec.device)
    with cpu_threads(spec.eval.threads):
        model = task.build_model(spec)
        token = start_register(spec, model)
        start = own_register(model, spec.task)
        weights = load_run(spec, model)
        others = {name: published_weights(run) for name, run in (other_runs or {}).items()}
        model.to(device).eval()
        evaluation = task.evaluate(model, spec, "validation", device)
        registers = {name: register_in(path, name) for name, path in others.items()}
        metrics: dict[str, float | int | str] = {
            **evaluation.metrics,
            **({} if start is None else register_metrics(task, model, spec, device, start, registers)),
            **facts_of_model(spec, model),
            "device": describe_device(device),
        }
        arrays = io.BytesIO()
        np.savez_compressed(arrays, **evaluation.per_sample)
        read = (*weights, token, *others.values(), endpoint_file(spec))
        outputs = [
            atomic_write(run.folder / PER_SAMPLE, arrays.getvalue()),
            atomic_write(run.folder / METRICS, json.dumps(metrics, indent=1, sort_keys=True) + "\n"),
        ]
        write_record(
            run.folder,
            spec,
            stamp,
            inputs=[path for path in dict.fromkeys(read) if path is not None],
            outputs=outputs,
            started=started,
            device=describe_device(device),
            threads=torch.get_num_threads(),
            name=RECORD,
        )


def facts_of_model(spec: JobSpec, model: Any) -> dict[str, int]:
    """What `metrics.json` tells of the model itself: its parameters, and of an encoder that prunes its patches and what
    the method adds. Parameters that only the training reads are not among those of the model."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if is_pretraining(spec):
        return {"parameters": parameters}
    added, in_training = (model.encoder.reducer.added_parameters(training=training) for training in (False, True))
    # On a frozen base the updates are a task's, too, and the readouts all tasks' (tab:parameters): charged to none.
    updates = sum(parameter.numel() for name, parameter in model.named_parameters() if is_low_rank(name))
    shared = _shared_readouts(model.encoder.reducer) if method_of(spec.method).frozen else 0
    return {
        "parameters": parameters - (in_training - added),
        "patches": (spec.model.image_size // spec.model.patch_size) ** 2,
        "parameters_added": added + updates - shared,
        "parameters_added_training": in_training + updates - shared,
        **({"parameters_shared": shared} if shared else {}),
    }


def _shared_readouts(reducer: Any) -> int:
    """Parameters of the controller without its registers: the two readouts, which a joint training stores once."""
    named = reducer.controller.named_parameters()
    return sum(parameter.numel() for name, parameter in named if not name.startswith("registers."))
