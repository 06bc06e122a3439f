"""The endpoint of the common recovery as a job: one per task, for all methods without a readout of their own.

Every such method prunes the no-pruning checkpoints of all seeds, without retraining, on the calibration split. The
endpoint with the better mean is the task's. The validation images have no part in it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

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
from tap.tasks.recovery_endpoint import choose_endpoint
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
    task, device = get_task(first), select_device(first.device)
    score = task.facts.score
    started, models, weights = datetime.now(UTC), [], set()
    with cpu_threads(first.eval.threads):
        for spec in concerned:
            given = spec.model_copy(update={"recovery": spec.recovery.model_copy(update={"endpoint": 1.0})})
            model, path = task.build_model(given), published_weights(run_of(dense_spec(spec)))
            load_weights(path, model, new=("encoder.reducer.",))
            models.append(model.to(device))
            weights.add(path)
        choice = choose_endpoint(
            models, lambda model: task.evaluate(model, first, "calibration", device).metrics[score.name], score
        )
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
            inputs=[*sorted(weights), *evidence_of_data(first)],
            outputs=[path],
            started=started,
            device=describe_device(device),
            threads=first.eval.threads,
            bases=(first.data.root,),
        )
    return path
