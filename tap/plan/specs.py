"""From a run to the settings that its job reads, and to the text of them that a rule hands over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ValidationError

from tap.config.lookup import method_of
from tap.config.messages import explain
from tap.config.methods import DENSE, MAIN, PRETRAINING, RANDOM_ENCODER, methods_of
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec, MixedImages, PretrainConfig
from tap.config.task import TaskConfig
from tap.config.variants import JOINT_STARTS, changes_of, variants_of
from tap.errors import UserError
from tap.plan.endpoints import uses_endpoint
from tap.plan.runs import pretraining_run, probed_runs, run_of, runs_of_table, task_of
from tap.plan.starts import RANDOM_ENCODERS, STARTS, is_start, training_of
from tap.runs import Run
from tap.task_facts import TASKS

Reader = Literal["train", "evaluate"]
"""Kinds of jobs on one run, by what they read of its settings."""

# How a job is run, not what it computes: a change of these must repeat nothing, so no rule's parameters hold them.
_RUNNING = ("device", "data.workers", "train.checkpoint_seconds", "train.log_steps", "train.checkpointing")
# What a job does not read. An evaluation depends on the training's settings through the checkpoint alone.
_UNREAD: dict[Reader, tuple[str, ...]] = {
    "train": ("eval",),
    "evaluate": ("train", "pretrain", "start_from"),
}
_UNREAD_WITHOUT_PRUNING = ("controller", "static_split", "recovery")


def job_spec(cfg: ScaleConfig, run: Run) -> JobSpec:
    """Every setting of one run.

    Raises:
        UserError: the run's scale, task or method is not one that the settings know.
    """
    if run.scale != cfg.scale:
        raise UserError(f"run: {run.id} belongs to scale '{run.scale}', the settings are those of '{cfg.scale}'")
    settings = task_of(cfg, run.task)
    if run.method not in (PRETRAINING, *methods_of(run.task)):
        known = ", ".join((PRETRAINING, *methods_of(run.task)))
        raise UserError(f"method: '{run.method}' is not a method of {run.task}; known: {known}")
    if run.method == PRETRAINING and settings.pretrain.share is not None:
        raise UserError(
            f"tasks.{run.task}.pretrain.share: the backbone is that of '{settings.pretrain.share}', whose run is "
            f"{pretraining_run(cfg, run.task).id}"
        )
    if run.variant not in (known := _variants(cfg, run, settings)):
        raise UserError(f"variant: {run.id} cannot be made; known here are {', '.join(known)}")
    if run.method in (PRETRAINING, DENSE) and run.rate != 1.0:
        raise UserError(f"keep rate: '{run.method}' removes nothing, so its rate is 1, not {run.rate}")
    if method_of(run.method).frozen and cfg.joint is None:
        raise UserError(f"joint: is missing in the settings, so {run.id} cannot be trained; give `joint.train`")
    if run.variant in JOINT_STARTS.values() and run.rate != 1.0:
        raise UserError(f"keep rate: {run.id} is what joint trainings go on from, so its rate is 1, not {run.rate}")
    train, start_from = training_of(settings, run, cfg.joint)
    if train is None:
        raise UserError(
            f"tasks.{run.task}.pretrain: weights are given ({settings.pretrain.weights}), so there is no "
            "pre-training to run; give `train` instead to pre-train here"
        )
    spec = JobSpec(
        scale=cfg.scale,
        task=run.task,
        method=run.method,
        rate=run.rate,
        variant=run.variant,
        seed=run.seed,
        device=cfg.device,
        data=settings.data,
        model=settings.model,
        pretrain=settings.pretrain,
        mixed=_mixed(cfg, settings.pretrain) if run.method == PRETRAINING else None,
        start_from=start_from,
        controller=cfg.controller,
        static_split=cfg.static_split,
        train=train,
        options=settings.options.only(run.method),
        recovery=settings.recovery,
        eval=settings.eval,
    )
    alike = run.method == PRETRAINING or is_start(run) or run.variant in JOINT_STARTS.values()
    own = None if alike else settings.chosen.get(run.method)
    return varied(changed(spec, {} if own is None else own.changes, f"tasks.{run.task}.chosen.{run.method}"))


def _mixed(cfg: ScaleConfig, pretrain: PretrainConfig) -> dict[str, MixedImages] | None:
    """The images of other tasks in a pre-training, loaded as those of its own task are."""
    if pretrain.mix is None:
        return None
    return {
        name: MixedImages(
            data=task_of(cfg, name).data.model_copy(update={"workers": 0}),
            model=task_of(cfg, name).model,
            batch_size=how.batch_size,
            augment=how.augment,
        )
        for name, how in pretrain.mix.items()
    }


def varied(spec: JobSpec) -> JobSpec:
    """The settings of a run after the changes of its variant; `main` changes nothing.

    Raises:
        UserError: an entry of `tap.config.variants` names a setting that there is not, or a value that it cannot have.
    """
    return changed(spec, changes_of(spec.variant), f"variant '{spec.variant}'")


def changed(spec: JobSpec, changes: Mapping[str, Any], where: str) -> JobSpec:
    """The settings of a run with other values.

    Args:
        spec: the settings.
        changes: values by dotted names of `JobSpec`.
        where: what a message names as their place.

    Raises:
        UserError: there is no such setting, or it cannot have the value.
    """
    if not changes:
        return spec
    tree = spec.model_dump(mode="json")
    for path, value in changes.items():
        section, _, last = path.rpartition(".")
        node = tree
        for name in section.split(".") if section else ():
            child = node[name] = node.get(name) or {}
            node = child
        node[last] = value
    try:
        return JobSpec.model_validate(tree)
    except ValidationError as error:
        raise UserError(explain(error, JobSpec, lambda path: (where, path))) from error


def job_json(spec: JobSpec, job: Reader) -> str:
    """The settings that decide the job's result, as one line of JSON: the parameter by which a rule knows of an edit.

    Left out are the settings that only say how to run it, those that this job does not read, and nulls (which are
    always the default, so that a new optional setting repeats no job). `parse_job` puts them back.
    """
    return json.dumps(settings_of(spec.model_dump(mode="json"), job), sort_keys=True, separators=(",", ":"))


def settings_of(tree: Mapping[str, Any], job: Reader) -> dict[str, Any]:
    """What a job reads of all settings of its run, given as plain values; without nulls."""
    read = _without_nulls(tree)
    for path in _left_out(tree["method"], job):
        _drop(read, path.split("."))
    return read


def parse_job(text: str, job: Reader, cfg: ScaleConfig, run: Run) -> JobSpec:
    """Reads what `job_json` wrote, with the settings that it leaves out taken from `cfg`.

    Raises:
        UserError: no JSON, a wrong key, type or value, or the settings of another run.
    """
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"--spec: is not JSON ({error}); leave it out to use the settings of params.yaml") from error
    if not isinstance(tree, dict):
        raise UserError(f"--spec: must be a JSON object with the settings of a job, got a {type(tree).__name__}")
    full = job_spec(cfg, run).model_dump(mode="json")
    for path in _left_out(run.method, job):
        _fill(tree, full, path.split("."))
    try:
        spec = JobSpec.model_validate(tree)
    except ValidationError as error:
        raise UserError(explain(error, JobSpec, lambda path: ("--spec", path))) from error
    if run_of(spec) != run:
        raise UserError(f"--spec: holds the settings of {run_of(spec).id}, not of {run.id}")
    return spec


def endpoint_specs(cfg: ScaleConfig, task: str) -> list[JobSpec]:
    """The runs that choose a task's endpoint: those at the main rate whose methods read one."""
    specs = [job_spec(cfg, run) for run in runs_of_table(cfg, task)]
    main = [spec for spec in specs if spec.rate == cfg.main_rate and spec.variant == MAIN]
    return [spec for spec in main if uses_endpoint(spec)]


def probe_parameters(cfg: ScaleConfig, task: str, kind: str) -> dict[str, Any]:
    """What a task's probe reads of the settings, as plain values; without nulls.

    Raises:
        UserError: the scale does not have the task.
    """
    jobs = [job_spec(cfg, run) for run in probed_runs(cfg, task, kind)]
    specs = [settings_of(job.model_dump(mode="json"), "evaluate") for job in jobs]
    probes = _without_nulls(task_of(cfg, task).probes.model_dump(mode="json"))
    return {"task": task, "kind": kind, "specs": specs, "probes": probes}


def _variants(cfg: ScaleConfig, run: Run, settings: TaskConfig) -> tuple[str, ...]:
    """The variants that a run of this task and method may have."""
    starts = STARTS.values() if settings.start_from == "dense" else ()
    own = [MAIN, RANDOM_ENCODER, *starts] if run.method == DENSE else [MAIN]
    if method_of(run.method).frozen and cfg.joint is not None and cfg.joint.start is not None:
        own += JOINT_STARTS.values()
    unknown = () if TASKS[run.task].floors else RANDOM_ENCODERS
    return (*(name for name in own if name not in unknown), *variants_of(run.task, run.method))


def _left_out(method: str, job: Reader) -> tuple[str, ...]:
    without_pruning = _UNREAD_WITHOUT_PRUNING if method in (PRETRAINING, DENSE) else ()
    return (*_UNREAD[job], *without_pruning, *_RUNNING)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _drop(tree: dict[str, Any], path: list[str]) -> None:
    for part in path[:-1]:
        tree = tree.get(part, {})
    tree.pop(path[-1], None)


def _fill(tree: dict[str, Any], full: dict[str, Any], path: list[str]) -> None:
    """Copies the value at `path` from `full` where `tree` has none."""
    for part in path[:-1]:
        if not isinstance(tree.setdefault(part, {}), dict):
            return
        tree, full = tree[part], full[part]
    tree.setdefault(path[-1], full[path[-1]])
