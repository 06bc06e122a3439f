"""The controlled probes of one task: which criterion at which block, and which recovery endpoint (Sec. Protocol).

A probe freezes a no-pruning checkpoint with its head and prunes one eligible block to a fixed count, without training.
All probes of a checkpoint share one process and one pass over the images, and what they have in common is computed once
(`tap.studies.probe_encoder`).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from tap.config.lookup import facts_of
from tap.config.measuring import ProbeConfig
from tap.config.methods import CRITERIA
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.criteria.registry import get
from tap.encoder.sparse_vit import SparseEncoder
from tap.encoder.swap import swapped_encoder
from tap.engine.checkpoint import load_weights
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.engine.passes import ALONE, Passes, Rows, kept_passes, rows_of
from tap.engine.published import published_weights
from tap.errors import UserError
from tap.plan.runs import probe_folder, probed_runs, run_of, task_of
from tap.plan.specs import job_spec, probe_parameters
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, Stamp, evidence_of_data, record_job
from tap.studies.probe_encoder import Probe, ProbeEncoder
from tap.task_facts import PLACE, TASKS, Metric
from tap.tasks.base import SAMPLE_ID, Batch
from tap.tasks.drawn_images import drawn
from tap.tasks.pipeline import PerImage, Pipeline
from tap.tasks.recovery_endpoint import ENDPOINTS
from tap.tasks.registry import get_task

Kind = Literal["layers", "recovery"]
VALUES, PER_SAMPLE, RECORD = "values.csv", "per_sample.npz", "probe.json"
DENSE_ROW = "dense"
RECOVERY_CRITERION = "coverage"

Found = dict[Probe | None, dict[str, np.ndarray]]
"""Per-image values of every probe; None is no pruning."""


def run_layer_probe(cfg: ScaleConfig, task: str, stamp: Stamp = BY_HAND) -> Path:
    """Every criterion at every eligible block of the first seed's checkpoint; writes values, per-image values, record.

    Dense tasks read at the endpoint that the recovery probe prefers.

    Returns:
        The values.

    Raises:
        UserError: the checkpoint is not trained, a setting does not fit, or the recovery probe has not been made.
    """
    read, alpha = [], 1.0
    if facts_of(task).dense:
        path = probe_folder(cfg.scale, task, "recovery") / VALUES
        alpha = preferred_endpoint(path, facts_of(task).score)
        read.append(path)
    criteria = [get(name) for name in task_of(cfg, task).probes.criteria or CRITERIA]

    def probes(layers: Sequence[int]) -> list[Probe]:
        return [Probe(layer, criterion, alpha) for layer in layers for criterion in criteria]

    return _run(cfg, task, "layers", probes, read, stamp)


def run_recovery_probe(cfg: ScaleConfig, task: str, stamp: Stamp = BY_HAND) -> Path:
    """Coverage at every eligible block of every seed's checkpoint, read with the full offset and with the stand-in.

    Both endpoints share retained set, pointers, offsets and checkpoint (Sec. Paired recovery probe).

    Returns:
        The values.

    Raises:
        UserError: the task has no dense head, a checkpoint is not trained, or a setting does not fit.
    """
    if "recovery" not in facts_of(task).probes:
        raise UserError(
            f"probe recovery: {task} restores nothing; name "
            f"{' or '.join(name for name, facts in TASKS.items() if facts.dense)}"
        )
    criterion = get(RECOVERY_CRITERION)

    def probes(layers: Sequence[int]) -> list[Probe]:
        return [Probe(layer, criterion, alpha) for layer in layers for alpha in ENDPOINTS]

    return _run(cfg, task, "recovery", probes, [], stamp)


def measure(
    task: Pipeline,
    model: Any,
    spec: JobSpec,
    probes: Sequence[Probe],
    settings: ProbeConfig,
    device: torch.device,
    passes: Passes = ALONE,
) -> Found:
    """Runs probes of one checkpoint, and no pruning, in one pass over the images.

    Args:
        task: the pipeline.
        model: the no-pruning model with its weights, on `device`; left as it was.
        spec: its settings.
        probes: any order.
        settings: keep rate and number of images.
        device: where the model is.
        passes: keeps what was found.
    """
    dataset = drawn(task.datasets(spec).validation, settings.images, spec.data.name, "probes")
    plan: list[Probe | None] = sorted(probes, key=lambda probe: (probe.layer, probe.criterion.name, -probe.alpha))
    plan.append(None)
    encoder = ProbeEncoder(model.encoder, settings.keep_rate, [probe.criterion for probe in probes], spec.seed)

    def probed(batch: Batch) -> Rows:
        batch = batch.to(device)
        encoder.new_batch()
        rows = {}
        for number, probe in enumerate(plan):
            encoder.rewind(probe)
            found = task.sufficient_statistics(task.evaluate_batch(model, spec, batch))
            rows |= {f"{number}/{name}": values for name, values in found.items()}
        return rows

    with swapped_encoder(model, encoder):
        rows = passes.over(run_of(spec).id, task, spec, dataset, probed)
    return {probe: rows_of(str(number), rows) for number, probe in enumerate(plan)}


def eligible_layers(encoder: SparseEncoder, settings: ProbeConfig) -> tuple[int, ...]:
    """Blocks, from 1, that a probe may prune: those that attend globally, or of these the ones in the settings.

    Raises:
        UserError: the settings name another block.
    """
    eligible = tuple(
        number
        for number, block in enumerate(encoder.vit.blocks, start=1)
        if getattr(block.attn, "side", None) is None  # a windowed block of a ViTDet trunk has a side
    )
    wrong = [layer for layer in settings.layers or () if layer not in eligible]
    if wrong:
        raise UserError(
            f"probes.layers: block {wrong[0]} cannot be probed; eligible are {', '.join(map(str, eligible))}"
        )
    return settings.layers or eligible


def preferred_endpoint(path: Path, metric: Metric) -> float:
    """The endpoint with the better mean over blocks and seeds; the full offset where they are equal.

    Args:
        path: values of the recovery probe.
        metric: the task's score.

    Raises:
        UserError: the recovery probe has not been made.
    """
    if not path.is_file():
        raise UserError(f"{path}: the recovery probe is not made yet; run `tap probe recovery` for this task first")
    frame = pd.read_csv(path)
    frame = frame[(frame["metric"] == metric.name) & (frame["criterion"] != DENSE_ROW)]
    means = frame.groupby("endpoint")["value"].mean()
    return max(ENDPOINTS, key=lambda alpha: metric.gain(means[alpha], 0.0))


def _run(
    cfg: ScaleConfig,
    task: str,
    kind: Kind,
    make: Callable[[Sequence[int]], list[Probe]],
    read: Sequence[Path],
    stamp: Stamp,
) -> Path:
    """Probes the checkpoints that a probe concerns and writes what was found.

    Args:
        cfg: the scale.
        task: the task.
        kind: which probe.
        make: the probes of a model with some eligible blocks.
        read: files that decided the probes.
        stamp: what the record says of the job.
    """
    started, settings = datetime.now(UTC), task_of(cfg, task).probes
    specs = [job_spec(cfg, run) for run in probed_runs(cfg, task, kind)]
    weights = [published_weights(run_of(spec)) for spec in specs]
    first, pipeline = specs[0], get_task(specs[0])
    assert isinstance(pipeline, Pipeline)
    device = select_device(first.device)
    rows: list[dict[str, Any]] = []
    arrays: list[PerImage] = []
    folder = probe_folder(cfg.scale, task, kind)
    with cpu_threads(first.eval.threads):
        device_in_words = describe_device(device)
        kept = kept_passes(
            Path(".tap", "resume", cfg.scale, "probes", task, kind),
            f"probe {kind} {task}",
            probe_parameters(cfg, task, kind),
            stamp.fingerprint,
            [*weights, *read],
            first,
            device_in_words,
        )
        with kept as passes:
            for spec, path in zip(specs, weights, strict=True):
                model: Any = pipeline.build_model(spec)
                load_weights(path, model)
                probes = make(eligible_layers(model.encoder, settings))
                found = measure(pipeline, model.to(device), spec, probes, settings, device, passes)
                for probe, values in found.items():
                    rows += _rows(pipeline, spec, settings, probe, values, len(arrays))
                    arrays.append(values)
            table = pd.DataFrame(rows).to_csv(index=False, lineterminator="\n")
            outputs = [atomic_write(folder / PER_SAMPLE, _packed(arrays)), atomic_write(folder / VALUES, table)]
            record_job(
                folder / RECORD,
                stamp,
                inputs=[*weights, *read, *evidence_of_data(first)],
                outputs=outputs,
                started=started,
                device=device_in_words,
                threads=first.eval.threads,
                bases=(first.data.root,),
                facts={"dataset": first.data.name, "checkpoints": [run_of(spec).id for spec in specs]},
            )
    return outputs[1]


def _rows(
    task: Pipeline, spec: JobSpec, settings: ProbeConfig, probe: Probe | None, found: PerImage, number: int
) -> list[dict[str, Any]]:
    scores = task.score(spec, found)
    common = {
        "run": run_of(spec).id,
        "seed": spec.seed,
        "criterion": DENSE_ROW if probe is None else probe.criterion.name,
        "layer": 0 if probe is None else probe.layer,
        "endpoint": None if probe is None or not task.facts.dense else probe.alpha,
        "keep_rate": 1.0 if probe is None else settings.keep_rate,
        "tokens": float(np.mean(found["final_tokens"])),
        "images": len(found["sample_id"]),
    }
    return [
        {**common, "metric": metric.name, "value": scores[metric.name], "position": number}
        for metric in task.facts.metrics
    ]


def _packed(arrays: Sequence[Mapping[str, np.ndarray]]) -> bytes:
    """The per-image values as an archive: `sample_id`, and `place` where images have one, `(n,)`; all other arrays have
    the probe in front `(V, n, ...)`.

    Token counts are left out: a probe keeps the same number in every image.
    """
    names = [name for name in arrays[0] if name not in (SAMPLE_ID, PLACE, "final_tokens")]
    stream = io.BytesIO()
    stacked = {name: np.stack([found[name] for found in arrays]) for name in names}
    of_images = {name: arrays[0][name] for name in (SAMPLE_ID, PLACE) if name in arrays[0]}
    np.savez_compressed(stream, **of_images, **stacked)
    return stream.getvalue()
