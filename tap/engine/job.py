"""A training as a job: from its settings to the published files of its run.

Everything that can be wrong is looked at before the first step, and results appear only when all of them are there to
be written: weights, log, and the record last. Until then an older result of the run stays as it is. The same command
goes on where a killed one stopped, and does nothing where nothing is left to do.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from tap.config.schema import JobSpec
from tap.encoder.weights import load_backbone
from tap.engine.calibration import calibrate
from tap.engine.checkpoint import load_weights, save_weights
from tap.engine.device import cpu_threads, describe_device, select_device
from tap.engine.distributed import Processes, join_processes
from tap.engine.loop import Trained, train
from tap.engine.published import LOG, WEIGHTS, is_published, published_weights
from tap.engine.register_start import start_register
from tap.engine.reporting import write_log
from tap.engine.resume import ResumeStates
from tap.engine.run_weights import base_of
from tap.plan.endpoints import endpoint_file
from tap.plan.runs import run_of
from tap.plan.specs import job_json
from tap.plan.starts import given_weights, source_run, starts_from_class_token
from tap.plan.teaching import dense_spec, teacher_run
from tap.provenance.files import sha256_file, writing
from tap.provenance.record import BY_HAND, Stamp, identity_of_data, write_record
from tap.runs import Run
from tap.tasks.base import Task
from tap.tasks.recovery_endpoint import recovery_settings
from tap.tasks.teacher import Teacher

TEACHER: Final = "teacher"
"""What `read_files` calls the no-pruning model that a training learns from."""


def train_run(spec: JobSpec, task: Task, stamp: Stamp = BY_HAND, loop: Callable[..., Trained] = train) -> None:
    """Trains the run that `spec` describes and publishes its weights, log and record.

    Args:
        spec: the run.
        task: its pipeline.
        stamp: what the record says of the job; a state of other code is no state to go on from.
        loop: how it is trained, with the arguments of `train`.

    Raises:
        UserError: an input is missing or does not fit, a folder cannot be written, the device is not there, or the loss
            stopped being a number. Nothing that was published before is touched then.
    """
    started, run = datetime.now(UTC), run_of(spec)
    device = select_device(spec.device)
    read = read_files(spec, teacher_weights(spec))
    recovery_settings(spec)  # says so now if the endpoint is not there
    with cpu_threads(spec.train.threads), join_processes(device.type) as processes:
        identity = identity_of(spec, stamp, read, processes)
        states = ResumeStates(run.scratch, identity, lambda text: _say(run, text, processes))
        with states.held() if processes.first else nullcontext():
            check_writable(run.folder)
            if processes.first_then_others(lambda: states.finished and is_published(run)):
                _say(run, "already trained with these settings, code and inputs; nothing to do", processes)
                return
            model, trained, facts = fit(
                spec, task, read.get(TEACHER), states, processes, device, loop, events=run.scratch / "tensorboard"
            )
            if processes.first:
                publish_training(
                    spec,
                    stamp,
                    trained,
                    lambda path, about: save_weights(path, model.state_dict(), about),
                    inputs=read.values(),
                    facts=facts,
                    started=started,
                    device=device,
                    processes=processes,
                )
                states.finish()


def fit(
    spec: JobSpec,
    task: Task,
    teacher: Path | None,
    states: ResumeStates,
    processes: Processes,
    device: torch.device,
    loop: Callable[..., Trained] = train,
    events: Path | None = None,
) -> tuple[Any, Trained, dict[str, float]]:
    """A model from where its settings start to the end of its training.

    Args:
        spec: the run.
        task: its pipeline.
        teacher: weights of the no-pruning model that it learns from, for the methods that do.
        states: where to resume from and where to keep states.
        processes: this process among those of the job.
        device: where to compute.
        loop: how it is trained, with the arguments of `train`.
        events: folder of the TensorBoard events; None keeps none.

    Returns:
        The model, with the weights to publish in the first process; what the loop left; what `calibrate` says of it.

    Raises:
        UserError: weights do not fit, or the loss stopped being a number (`NotFinite`).
    """
    model: Any = task.build_model(spec)
    load_start(spec, model)
    start_register(spec, model)
    if teacher is not None:
        model.teacher = load_teacher(spec, task, teacher, device)
    calibrate(spec, task, model, device, first=True)
    trained = loop(spec, task, model, states, processes, device, events=events)
    if not processes.first:
        return model, trained, {}
    model.load_state_dict(trained.tensors)
    return model, trained, calibrate(spec, task, model, device)


def read_files(spec: JobSpec, teacher: Path | None) -> dict[str, Path]:
    """The files beside the data that a training reads, by what they are for; those that it needs alone.

    Args:
        spec: the run.
        teacher: weights of the no-pruning model that it learns from.

    Raises:
        UserError: a file is not there.
    """
    found = {
        "start": starting_weights(spec),
        "class_token": base_of(spec) if starts_from_class_token(spec) else None,
        "endpoint": endpoint_file(spec),
        TEACHER: teacher,
    }
    return {name: path for name, path in found.items() if path is not None}


def identity_of(spec: JobSpec, stamp: Stamp, read: Mapping[str, Path], processes: Processes) -> dict[str, Any]:
    """Everything that decides the weights of a training, as JSON values (`ResumeStates`).

    Args:
        spec: the run.
        stamp: by which code.
        read: the files that it reads, by what they are for.
        processes: each draws for its share of a batch, and sums are split by them.
    """
    return {
        "settings": json.loads(job_json(spec, "train")),
        "code": stamp.fingerprint,
        "data": identity_of_data(spec),
        **{name: sha256_file(path) for name, path in read.items()},
        "processes": processes.world_size,
    }


def publish_training(
    spec: JobSpec,
    stamp: Stamp,
    trained: Trained,
    save: Callable[[Path, Mapping[str, object]], Path],
    *,
    inputs: Iterable[Path],
    facts: Mapping[str, Any],
    started: datetime,
    device: torch.device,
    processes: Processes,
) -> None:
    """Writes the files of a run that is trained: weights, log, and the record last.

    Args:
        spec: the run.
        stamp: what is to be said of the job.
        trained: what the loop left.
        save: writes the weights to a path, with what the file says of itself.
        inputs: files that the training read.
        facts: what the record says beside what every training's does; JSON values.
        started: when the job began.
        device: what it ran on.
        processes: the processes that shared it.
    """
    run = run_of(spec)
    about = {"run": run.id, "scale": run.scale, "fingerprint": stamp.fingerprint}
    weights = save(run.folder / WEIGHTS, about)
    log = write_log(run.folder / LOG, trained.rows)
    write_record(
        run.folder,
        spec,
        stamp,
        inputs=dict.fromkeys(inputs),
        outputs=[weights, log],
        started=started,
        extra={
            "steps": trained.steps,
            **trained.facts,
            "train_seconds": round(trained.seconds, 3),
            "processes": processes.world_size,
            **facts,
        },
        device=describe_device(device),
        threads=torch.get_num_threads(),
    )


def starting_weights(spec: JobSpec) -> Path | None:
    """The file that a training starts from, or None where it starts from random weights.

    Raises:
        UserError: the file is not there.
    """
    if spec.start_from in ("pretrained", "joint") and spec.pretrain.weights is not None:
        return given_weights(spec.pretrain, spec.task)
    source = source_run(spec)
    return None if source is None else published_weights(source)


def teacher_weights(spec: JobSpec) -> Path | None:
    """The no-pruning checkpoint that a training learns from, for the methods that do.

    Raises:
        UserError: the no-pruning run of the seed is not trained.
    """
    run = teacher_run(spec)
    return None if run is None else published_weights(run)


def load_teacher(spec: JobSpec, task: Task, path: Path, device: torch.device) -> Teacher:
    """The no-pruning model of the seed, frozen, on `device`."""
    model = task.build_model(dense_spec(spec))
    load_weights(path, model)
    return Teacher(model.to(device))


def load_start(spec: JobSpec, model: nn.Module) -> None:
    """Puts the weights that the settings start from into `model`; what they lack keeps its initial values.

    Raises:
        UserError: the file is missing, damaged, or of another architecture.
    """
    path = starting_weights(spec)
    if path is None:
        return
    if spec.start_from == "dense":
        load_weights(path, model, new=("encoder.reducer.",))
    else:
        own = spec.pretrain.weights is not None
        load_backbone(model.encoder.vit, path, spec.pretrain.sha256 if own else None, pretrained_only=own)


def check_writable(folder: Path) -> None:
    """Makes the folder and removes what a killed writer left in it.

    Raises:
        UserError: the folder cannot be made or written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    for torn in folder.glob(".*.tmp*"):
        torn.unlink(missing_ok=True)


def _say(run: Run, text: str, processes: Processes) -> None:
    if processes.first:
        print(f"{run.id}: {text}", file=sys.stderr)
