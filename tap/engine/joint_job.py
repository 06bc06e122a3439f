"""A joint training as a job: from the settings of all its tasks to a published run of each (TAP-F).

As the training of one run (`tap.engine.job`), with one state to go on from and one identity over all tasks. The base is
never written again: each task's file says by hash which one it belongs to, and the record names the pre-trained file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tap.config.schema import JobSpec
from tap.engine.device import cpu_threads, select_device
from tap.engine.distributed import Processes, join_processes
from tap.engine.job import check_writable, publish_training, starting_weights
from tap.engine.joint import Member, build_joint, train_joint
from tap.engine.joint_files import go_on_from, save_task
from tap.engine.published import is_published, published_weights
from tap.engine.resume import ResumeStates
from tap.errors import UserError
from tap.plan.joint import JointRun, joint_start
from tap.plan.runs import run_of
from tap.plan.specs import job_json
from tap.provenance.files import sha256_file
from tap.provenance.record import BY_HAND, Stamp, evidence_of_data, identity_of_data
from tap.seeds import derive_seed
from tap.tasks.registry import get_task


def train_joint_run(specs: Mapping[str, JobSpec], stamp: Stamp = BY_HAND) -> None:
    """Trains all tasks of a joint run and publishes the weights, log and record of each.

    Args:
        specs: the run of every task, in a fixed order; they differ in what a task has of its own.
        stamp: what the records say of the job.

    Raises:
        UserError: a single task; an input is missing or does not fit; a folder cannot be written; the device is not
            there; a loss stopped being a number. Nothing that was published before is touched then.
    """
    if len(specs) < 2:
        raise UserError(f"tasks: a joint training needs at least two, got {', '.join(specs) or 'none'}")
    started, first = datetime.now(UTC), next(iter(specs.values()))
    joint, runs = JointRun.with_run(run_of(first)), {task: run_of(spec) for task, spec in specs.items()}
    device = select_device(first.device)
    base, starts = _base(first), _starts(specs)
    sampler_seed = derive_seed(first.seed, "joint sampler")
    identity: dict[str, Any] = {
        "settings": {task: json.loads(job_json(spec, "train")) for task, spec in specs.items()},
        "code": stamp.fingerprint,
        "data": {task: identity_of_data(spec) for task, spec in specs.items()},
        "base": sha256_file(base),
        "start": {task: sha256_file(path) for task, path in starts.items()},
        "sampler_seed": sampler_seed,
    }
    with cpu_threads(first.train.threads), join_processes(device.type) as processes:
        identity["processes"] = processes.world_size
        states = ResumeStates(joint.scratch, identity, lambda text: _say(joint, text, processes))
        with states.held() if processes.first else nullcontext():
            for run in runs.values():
                check_writable(run.folder)
            if processes.first_then_others(lambda: states.finished and all(map(is_published, runs.values()))):
                _say(joint, "already trained with these settings, code and inputs; nothing to do", processes)
                return
            members = {task: Member(get_task(spec), spec) for task, spec in specs.items()}
            options: Any = first.options.of(first.method) if first.options is not None else None
            sha256 = first.pretrain.sha256 if first.pretrain.weights is not None else None
            model = build_joint(members, base, sha256, options.register_of, options.adapters_of)
            for task, path in starts.items():
                go_on_from(model, task, path)
            trained = train_joint(
                joint.id,
                members,
                model,
                model.views,
                first.train,
                first.seed,
                sampler_seed,
                states,
                processes,
                device,
                events=joint.scratch / "tensorboard",
            )
            if processes.first:
                inputs = [base, *starts.values()]
                inputs += [path for spec in specs.values() for path in evidence_of_data(spec)]
                for task, spec in specs.items():
                    publish_training(
                        spec,
                        stamp,
                        trained,
                        partial(save_task, model, task),
                        inputs=inputs,
                        facts={"base": model.base_hash(task)},
                        started=started,
                        device=device,
                        processes=processes,
                    )
                states.finish()


def _base(spec: JobSpec) -> Path:
    """The file with the frozen base.

    Raises:
        UserError: it is not there.
    """
    path = starting_weights(spec)
    if path is None:
        raise UserError(f"{run_of(spec).id}: a joint training needs a pre-trained base; give one in pretrain")
    return path


def _starts(specs: Mapping[str, JobSpec]) -> dict[str, Path]:
    """What each task goes on from; empty where all begin with the base.

    Raises:
        UserError: a start is not trained.
    """
    found = {task: joint_start(spec) for task, spec in specs.items()}
    return {task: published_weights(run) for task, run in found.items() if run is not None}


def _say(joint: JointRun, text: str, processes: Processes) -> None:
    if processes.first:
        print(f"{joint.id}: {text}", file=sys.stderr)
