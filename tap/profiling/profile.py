"""A profile as a job: speed, components, memory and operations of every method at one task's shapes, on this machine.

Time and memory depend on counts, shapes and kernels, so weights are random and no training is waited for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from tap.config.methods import DENSE, METHODS, TAP
from tap.config.model import ModelConfig
from tap.core.budget import keep_count
from tap.core.recovery import buffer_bytes
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.errors import UserError
from tap.plan.profiles import (
    PRINTED_SPLITS,
    ProfileKey,
    Protocol,
    gpu_facts,
    profile_folder,
    protocol,
    shaped,
    subjects,
)
from tap.plan.runs import task_of
from tap.profiling.components import components
from tap.profiling.flops import of_encoder
from tap.profiling.memory import lean_twin, peak_bytes, weight_bytes
from tap.profiling.method_flops import from_counts
from tap.profiling.rounds import Pass, Rounds, measure
from tap.profiling.subjects import build, infer, meet_count, trained_split
from tap.profiling.throughput import dense_model, dense_twin, kernel_of, precision
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, Stamp, record_job
from tap.reducers.costs import cost_of

TRAINED_SPLIT: Final = "tap:trained_split"
"""TAP with the split of a trained checkpoint of the scale that has these shapes, where there is one."""

DRIVER: Final = ("driver_version", "power.limit", "clocks.sm", "clocks.max.sm", "clocks.mem")
Compile = Callable[[Any], Any]


def profile_task(key: ProfileKey, stamp: Stamp = BY_HAND, methods: Sequence[str] | None = None) -> Path:
    """Profiles a task's methods on this machine, and writes what was found with a record.

    Args:
        key: machine, shapes and task.
        stamp: what the record says of the job.
        methods: those to profile beside the dense encoder; None takes all.

    Returns:
        The profile, ``<task>.json`` in the folder of the machine and the shapes.

    Raises:
        UserError: there is no such GPU, the GPU has too little memory for a single image, a method is not known, or the
            folder cannot be written.
    """
    started, how = datetime.now(UTC), protocol(key)
    device = select_device("cpu" if key.device.startswith("cpu-") else "cuda")
    known = subjects(key.shapes, key.task)
    of = {name: name.partition("@")[0] for name in known}
    unknown = sorted(set(methods or ()) - set(of.values()))
    if unknown:
        there = ", ".join(dict.fromkeys(of.values()))
        raise UserError(f"method: '{unknown[0]}' is not profiled for {key.task}; choose from {there}")
    names = [name for name in known if methods is None or name == DENSE or of[name] in methods]
    trained = trained_split(key.shapes, key.task) if TAP in names else None
    names += [] if trained is None else [TRAINED_SPLIT]
    with cpu_threads(how.threads) if device.type == "cpu" else nullcontext():
        found = {"about": about(key, how, device), **_fitting(key, how, names, device)}
        path = profile_folder(key) / f"{key.task}.json"
        written = atomic_write(path, json.dumps(found, indent=1) + "\n")
        record_job(
            path.with_suffix(".record.json"),
            stamp,
            inputs=[] if trained is None else [trained[0]],
            outputs=[written],
            started=started,
            device=describe_device(device),
            threads=torch.get_num_threads(),
        )
    return written


def about(key: ProfileKey, how: Protocol, device: torch.device) -> dict[str, Any]:
    """What stands beside every number of a profile: machine, versions, clocks and protocol."""
    driver = gpu_facts(*DRIVER) if device.type == "cuda" else []
    return {
        "task": key.task,
        "shapes": key.shapes,
        "device": describe_device(device),
        "torch": torch.__version__,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "driver": dict(zip(DRIVER, driver, strict=False)),
        "protocol": asdict(how),
        "split": {"of": "printed means and SD", "percent": PRINTED_SPLITS[key.task]},
    }


def _fitting(key: ProfileKey, how: Protocol, names: Sequence[str], device: torch.device) -> dict[str, Any]:
    """Profiles with as many images as there is memory for."""
    batch = how.batch
    while True:
        try:
            found = profile(key, replace(how, batch=batch), names, device)
        except torch.OutOfMemoryError as error:
            if batch == 1:
                raise UserError(f"{key.task}: one image does not fit into the memory of {key.device}") from error
            torch.cuda.empty_cache()
            batch //= 2
            print(f"profile {key.task}: out of memory; {batch} images instead", file=sys.stderr)
        else:
            return {"batch": batch, "wanted_batch": how.batch, **found}


def profile(
    key: ProfileKey,
    how: Protocol,
    names: Sequence[str],
    device: torch.device,
    compiler: Compile = torch.compile,
) -> dict[str, Any]:
    """Everything that is measured of some methods, as JSON values.

    Args:
        key: machine, shapes and task.
        how: the protocol.
        names: subjects, no pruning first.
        device: where they compute.
        compiler: what compiles both sides where the protocol asks for it.
    """
    models = {
        name: build(key.shapes, key.task, name, device, PRINTED_SPLITS[key.task]) for name in names if ":" not in name
    }
    if TRAINED_SPLIT in names and (trained := trained_split(key.shapes, key.task)) is not None:
        models[TRAINED_SPLIT] = build(key.shapes, key.task, TAP, device, trained[1])
    base = models[DENSE].encoder.vit
    for each in models.values():  # one backbone for all that have the same: counts decide, not values
        vit = each.encoder.vit
        if [(n, p.shape) for n, p in vit.named_parameters()] == [(n, p.shape) for n, p in base.named_parameters()]:
            each.encoder.vit = base
    images, patches = profiled_images(key, how.batch)
    images, ids = images.to(device), torch.arange(how.batch, device=device)
    with torch.inference_mode(), precision(device, how.dtype):
        counts = {name: meet_count(each, images, ids) for name, each in models.items()}
        memory = {name: memory_of(each, images[:1], ids[:1], device, how) for name, each in models.items()}
        operations, formula = {}, {}
        for name, each in models.items():
            operations[name], trace = of_encoder(each.encoder, images, ids)
            known = cost_of(each.encoder.reducer) is not None
            formula[name] = from_counts(each.encoder, trace) / operations[name] if known else None
        rounds = measure(
            _pairs(models, images, ids, how, compiler),
            device,
            warmup=how.warmup,
            iterations=how.iterations,
            rounds=how.rounds,
            repeats=how.repeats,
        )
        found = {
            "kernel": kernel_of(models[DENSE].encoder, device, how.dtype),
            "patches": patches,
            "disturbed": rounds.disturbed,
            "dense_spread": rounds.spread,
            "taken": rounds.taken,
            "methods": {
                name: {
                    "title": METHODS[name.partition("@")[0].partition(":")[0]].row.title,
                    "mean_patches": counts[name],
                    **_speeds(name, rounds, how.batch, operations),
                    "flops_formula_over_torch": formula[name],
                    "memory": memory[name],
                }
                for name in models
            },
        }
        if TAP in models:
            found["components"] = breakdown(models[TAP], images, ids, how)
            found["checks"] = checks(models[TAP], images, ids)
    return found


def profiled_images(key: ProfileKey, batch: int) -> tuple[Tensor, int]:
    """Random images `(batch, C, H, W)` of the size that the task's model is trained at, and the patches of each."""
    model: ModelConfig = task_of(shaped(key.shapes), key.task).model
    shape = batch, model.channels, model.image_size, model.image_size
    images = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    return images, (model.image_size // model.patch_size) ** 2


def _pairs(
    models: Mapping[str, Any], images: Tensor, ids: Tensor, how: Protocol, compiler: Compile
) -> dict[str, tuple[Pass, Pass]]:
    """Dense and subject by name: encoders, encoders compiled, full models."""

    def both(dense: Any, subject: Any, call: Callable[[Any], object]) -> tuple[Pass, Pass]:
        return (lambda: call(dense)), (lambda: call(subject))

    pairs = {}
    for name, model in models.items():
        twin = dense_twin(model.encoder).eval()
        pairs[name] = both(twin, model.encoder, lambda side: side(images, ids))
        if how.compiled:
            compiled = compiler(twin), compiler(model.encoder)
            pairs[f"{name} compiled"] = both(*compiled, lambda side: side(images, ids))
        if hasattr(model, "infer") and name != DENSE and (how.full is None or name in how.full):
            pairs[f"{name} full"] = both(dense_model(model).eval(), model, lambda side: infer(side, images, ids))
    return pairs


def _speeds(name: str, rounds: Rounds, batch: int, operations: Mapping[str, int]) -> dict[str, Any]:
    """Eager and compiled side by side, the better of each, and the share of the bound that it reaches."""
    eager, compiled = rounds.speeds[name], rounds.speeds.get(f"{name} compiled")
    better = eager if compiled is None else min(eager, compiled, key=lambda speed: speed.seconds)
    dense = eager.reference if compiled is None else min(eager.reference, compiled.reference)
    ratio = better.ratio if compiled is None else dense / better.seconds
    bound = operations[DENSE] / operations[name]
    full = rounds.speeds.get(f"{name} full")
    return {
        "images_per_second": batch / better.seconds,
        "dense_images_per_second": batch / dense,
        "speedup": ratio,
        "interval": [bound_of_mean * ratio / better.ratio for bound_of_mean in (better.low, better.high)],
        "eager": asdict(eager),
        "compiled": None if compiled is None else asdict(compiled),
        "full": None if full is None else {"images_per_second": batch / full.seconds, **asdict(full)},
        "gflops_per_image": operations[name] / batch / 1e9,
        "bound": bound,
        "of_bound": ratio / bound,
    }


def memory_of(model: Any, image: Tensor, ids: Tensor, device: torch.device, how: Protocol) -> dict[str, Any]:
    """Weights, activations of the full model and the encoder at batch 1, recovery buffer beside its formula."""
    encoder = model.encoder
    infer(model, image, ids)  # makes lazily what stays

    def repeated() -> None:
        for _ in range(how.memory_iterations):
            infer(model, image, ids)

    weights, activations = weight_bytes(model), peak_bytes(repeated, device)
    found: dict[str, Any] = {
        "weights": weights,
        "activations": activations,
        "peak_gb": (weights + activations) / 1e9,
        "encoder_activations": peak_bytes(lambda: encoder(image, ids), device),
    }
    if encoder.reducer.name == DENSE:
        lean = lean_twin(encoder)
        found["encoder_activations_in_pieces"] = peak_bytes(lambda: lean(image, ids), device)
    elif encoder.reducer.name == TAP and encoder.read_blocks:
        recovery = encoder(image, ids).recovery
        width, size = recovery.records[0].offset.shape[1], recovery.records[0].offset.element_size()
        removed = sum(len(record.pointer) for record in recovery.records)
        found["recovery_buffer"] = recovery.bytes
        found["recovery_formula"] = buffer_bytes(removed, width, len(recovery.records), size)
    return found


def breakdown(model: Any, images: Tensor, ids: Tensor, how: Protocol) -> dict[str, Any]:
    """Components of TAP in ms per image and percent of a pass without instruments (tab:latency-breakdown)."""
    seconds, whole = components(model, lambda: infer(model, images, ids), images.device, max(3, how.iterations // 5))
    share = sum(seconds.values()) / whole
    return {
        "ms": {name: 1000 * spent / len(images) for name, spent in seconds.items()},
        "percent": {name: 100 * spent / whole for name, spent in seconds.items()},
        "end_to_end_ms": 1000 * whole / len(images),
        "sum_percent": 100 * share,
        "within": 0.95 <= share <= 1.05,
    }


def checks(model: Any, images: Tensor, ids: Tensor) -> dict[str, Any]:
    """Whether every image keeps exactly K, and how the removals are spread over the pruning blocks."""
    encoder = model.encoder
    trace = encoder(images, ids, return_trace=True).trace
    exact = keep_count(trace.grid[0] * trace.grid[1], encoder.reducer.keep_rate)
    return {
        "exact_k": bool((trace.final_counts == exact).all()),
        "k": exact,
        "mean_shares": trace.shares.mean(dim=0).tolist(),
    }
