"""The endpoint of the common recovery as a job: one per task, for all methods without a readout of their own.

Every such method prunes the no-pruning checkpoints of all seeds, without retraining, on the calibration split. The
endpoint with the better mean is the task's. The validation images have no part in it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from tap.config.schema import JobSpec
from tap.engine.checkpoint import load_weights
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.engine.published import published_weights
from tap.errors import UserError
from tap.plan.endpoints import endpoint_path, uses_endpoint
from tap.plan.runs import run_of
from tap.plan.teaching import dense_spec
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, evidence_of_data, record_job
from tap.tasks.base import Task
from tap.tasks.recovery_endpoint import EndpointChoice, choose_endpoint
from tap.tasks.registry import get_task


def run_endpoint(specs: Sequence[JobSpec], stamp: Stamp = BY_HAND) -> Path:
    """Chooses the endpoint of a task and writes it with the scores and the inputs behind it.

    Args:
        specs: the runs of the task at the main rate; those that the endpoint concerns take part.
        stamp: what the record says of the job.

    Returns:
        The file.

    Raises:
        UserError: no run is concerned, or a no-pruning run is not trained.
    """
    concerned = [spec for spec in specs if uses_endpoint(spec)]
    if not concerned:
        raise UserError("endpoint: no method of this task uses the common recovery, so there is nothing to choose")
    first = concerned[0]
    task, device, started = get_task(first), select_device(first.device), datetime.now(UTC)
    weights = [published_weights(run_of(dense_spec(spec))) for spec in concerned]
    with cpu_threads(first.eval.threads):
        choice = better_endpoint(list(zip(concerned, weights, strict=True)), task, device)
        content = {
            "endpoint": choice.endpoint,
            "calibration_score": {f"{alpha:g}": value for alpha, value in choice.scores.items()},
            "runs": [run_of(spec).id for spec in concerned],
            "calibration_images": first.data.calibration,
        }
        path = atomic_write(endpoint_path(first.scale, first.task), json.dumps(content, indent=1) + "\n")
        record_job(
            path.with_suffix(RECORD_SUFFIX),
            stamp,
            inputs=[*sorted(set(weights)), *evidence_of_data(first)],
            outputs=[path],
            started=started,
            device=describe_device(device),
            threads=first.eval.threads,
            bases=(first.data.root,),
        )
    return path


def better_endpoint(pruned: Sequence[tuple[JobSpec, Path]], task: Task, device: torch.device) -> EndpointChoice:
    """The endpoint with the better mean on the calibration split, of models that prune and were not trained to.

    Args:
        pruned: methods with the common recovery, each with the no-pruning weights that it prunes.
        task: their pipeline.
        device: where to compute.

    Raises:
        UserError: weights do not fit, or the split is empty.
    """
    models, (first, _), score = [], pruned[0], task.facts.score
    for spec, path in pruned:
        model = task.build_model(with_endpoint(spec, 1.0))
        load_weights(path, model, new=("encoder.reducer.",))
        models.append(model.to(device))
    return choose_endpoint(
        models, lambda model: task.evaluate(model, first, "calibration", device).metrics[score.name], score
    )


def with_endpoint(spec: JobSpec, endpoint: float) -> JobSpec:
    """The settings of a run with an endpoint in the place of the one that is to be chosen."""
    return spec.model_copy(update={"recovery": spec.recovery.model_copy(update={"endpoint": endpoint})})
