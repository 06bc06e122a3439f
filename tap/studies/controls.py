"""All controls of one checkpoint as a job: the task's means, the oracle, and every control in one pass."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from tap.config.measuring import ControlConfig
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.controls.choice import Choice, judge_choice
from tap.controls.evaluation import ControlResult, RegisterOutputs, evaluate_controls, images_of, register_outputs
from tap.controls.oracle import Oracle, search_splits
from tap.controls.policies import (
    FULL,
    Control,
    matching_controls,
    mean_controls,
    recovery_controls,
    static_controls,
)
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.engine.passes import ALONE, Passes, kept_passes
from tap.engine.run_weights import load_run
from tap.errors import UserError
from tap.plan.controls import ARRAYS, CONTROLLED, OF_IMAGES, VALUES, control_parameters
from tap.plan.runs import run_of, task_of
from tap.plan.specs import job_spec
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, evidence_of_data, record_job
from tap.runs import Run
from tap.tasks.pipeline import Pipeline
from tap.tasks.registry import get_task

ORACLE = "oracle"
VALIDATION_MEANS = "_validation"
"""Behind the names of controls whose means are those of the validation images, as the paper takes them."""


def run_controls(cfg: ScaleConfig, run: Run, stamp: Stamp = BY_HAND) -> Path:
    """Runs the controls of a checkpoint, and writes values, arrays of single images, and the job's record.

    ``controls.csv`` has a line for each control and metric, with what it held fixed: the hash of selected sets and
    allocations, and in how many passes the removals sum to N - K. ``controls.npz`` has the register's outputs on every
    validation image, the oracle's losses, what groups of patches are worth and who says so, and the values of single
    images behind every score, for paired intervals.

    Args:
        cfg: the scale.
        run: a TAP run that removes patches.
        stamp: what the record says of the job.

    Returns:
        The values.

    Raises:
        UserError: the run has no register or is not trained, or a split is smaller than what is asked for.
    """
    if run.method not in CONTROLLED:
        raise UserError(f"control: '{run.method}' has no register; name a run of {' or '.join(CONTROLLED)}")
    started, spec, settings = datetime.now(UTC), job_spec(cfg, run), task_of(cfg, run.task).controls
    task: Any = get_task(spec)
    device = select_device(spec.device)
    with cpu_threads(spec.eval.threads):
        model, device_in_words = task.build_model(spec), describe_device(device)
        weights = load_run(spec, model)
        kept = kept_passes(
            run.scratch / "controls",
            f"control {run.id}",
            control_parameters(cfg, run),
            stamp.fingerprint,
            weights,
            spec,
            device_in_words,
        )
        with kept as passes:
            table, arrays = measure(task, model.to(device), spec, settings, device, passes)
            packed = io.BytesIO()
            np.savez_compressed(packed, **arrays)
            outputs = [
                atomic_write(run.folder / ARRAYS, packed.getvalue()),
                atomic_write(run.folder / VALUES, table.to_csv(index=False, lineterminator="\n")),
            ]
            record_job(
                outputs[1].with_suffix(RECORD_SUFFIX),
                stamp,
                inputs=[*weights, *evidence_of_data(spec)],
                outputs=outputs,
                started=started,
                device=device_in_words,
                threads=spec.eval.threads,
                bases=(spec.data.root,),
                facts={"dataset": spec.data.name, "checkpoint": run.id},
            )
    return outputs[1]


def measure(
    task: Pipeline,
    model: Any,
    spec: JobSpec,
    settings: ControlConfig,
    device: torch.device,
    passes: Passes = ALONE,
) -> tuple[pd.DataFrame, Mapping[str, np.ndarray]]:
    """The table and the arrays of `run_controls`.

    Args:
        task: the pipeline.
        model: with its weights, on `device`.
        spec: its settings.
        settings: numbers of images, and the oracle's step.
        device: where the model is.
        passes: keeps what was found.
    """
    calibration = images_of(task, spec, "calibration", settings.calibration_images)
    validation = images_of(task, spec, "validation", settings.images)
    everything = images_of(task, spec, "validation")
    means = register_outputs(task, model, spec, calibration, device, passes, "calibration").means
    register = register_outputs(task, model, spec, everything, device, passes)
    searched = images_of(task, spec, "calibration", settings.oracle_images)
    oracle = search_splits(task, model, spec, searched, device, settings.oracle_step, passes)
    controls = [
        Control(FULL),
        *static_controls(spec.static_split),
        *mean_controls(means),
        *mean_controls(register.means, VALIDATION_MEANS),
        Control(ORACLE, oracle.schedule),
    ]
    if task.facts.dense:
        controls += [*recovery_controls(), *matching_controls()]
    found, blocks = evaluate_controls(task, model, spec, controls, validation, device, passes)
    rows = [row for control in controls for row in _rows(task, spec, control, found[control.name])]
    table = pd.DataFrame(rows)
    print(f"{run_of(spec).id}: {_in_words(table, oracle, *blocks)}")
    looked_at = images_of(task, spec, "validation", settings.choice_images)
    choice = judge_choice(task, model, spec, looked_at, device, settings.choice_side, passes)
    of_images = {
        f"{name}{OF_IMAGES}{array}": values for name, one in found.items() for array, values in one.per_image.items()
    }
    return table, _arrays(register, oracle, choice, task.facts.dense) | of_images


def _rows(task: Pipeline, spec: JobSpec, control: Control, found: ControlResult) -> list[dict[str, Any]]:
    scores = task.score(spec, found.per_image)
    scale = json.dumps(list(control.scale)) if isinstance(control.scale, tuple) else str(control.scale)
    common = {
        "run": run_of(spec).id,
        "seed": spec.seed,
        "control": control.name,
        "schedule": "per image" if control.schedule is None else json.dumps(list(control.schedule)),
        "matching": control.matching,
        "scale": scale,
        "shares": json.dumps([float(share) for share in found.shares]),
        "images": len(found.per_image["sample_id"]),
        "passes": len(found.budget),
        "exact": found.exact,
        "digest": found.digest,
    }
    return [{**common, "metric": metric.name, "value": scores[metric.name]} for metric in task.facts.metrics]


def _arrays(register: RegisterOutputs, oracle: Oracle, choice: Choice, dense: bool) -> dict[str, np.ndarray]:
    found = {
        "sample_id": register.sample_id,
        "shares": register.shares,
        "oracle_sample_id": oracle.sample_id,
        "oracle_splits": oracle.splits,
        "oracle_losses": oracle.losses,
        "oracle_blocks": np.array([oracle.blocks_run, oracle.blocks_alone]),
        **{f"choice_{name}": values for name, values in choice.identity.items()},
        "choice_worth": choice.worth,
        **{f"choice_{name}": values for name, values in choice.says.items()},
    }
    return {**found, "scales": register.scales} if dense else found


def _in_words(table: pd.DataFrame, oracle: Oracle, blocks_run: int, blocks_alone: int) -> str:
    """What the job says when it ends."""
    passes, exact = table["passes"].sum(), table["exact"].sum()
    names: Sequence[str] = table["control"].unique()
    return (
        f"{len(names)} controls; removals sum to N - K in {exact} of {passes} passes of all rows; "
        f"{blocks_run} blocks instead of {blocks_alone}. Oracle: {len(oracle.splits)} splits on {len(oracle.losses)} "
        f"images, mean {'/'.join(f'{share:.1f}' for share in oracle.schedule)} %, {100 * oracle.saving:.0f} % of the "
        "blocks saved by common beginnings."
    )
