"""From the settings of a scale to its runs, and from a run to the settings that its job reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from tap.config.messages import explain
from tap.config.methods import (
    COMMON_RECOVERY,
    DENSE,
    MAIN,
    PRETRAINING,
    RANDOM_ENCODER,
    RANDOM_ENCODERS,
    STARTS,
    TAP,
    TAUGHT,
    VARIANTS,
    methods_of,
)
from tap.config.schema import JobSpec, ScaleConfig, TaskConfig
from tap.errors import UserError
from tap.runs import Run
from tap.task_facts import TASKS

Job = Literal["train", "evaluate"]

# How a job is run, not what it computes: a change of these must repeat nothing, so no rule's parameters hold them.
_RUNNING = ("device", "data.workers", "train.checkpoint_seconds", "train.log_steps")
# What a job does not read. An evaluation depends on the training's settings through the checkpoint alone.
_UNREAD: dict[Job, tuple[str, ...]] = {
    "train": ("eval", "profile"),
    "evaluate": ("train", "pretrain", "start_from"),
}
_UNREAD_WITHOUT_PRUNING = ("controller", "static_split", "recovery")


def pretraining_run(cfg: ScaleConfig, task: str) -> Run:
    """The run that makes the task's pre-trained backbone: one for all seeds, as public weights are."""
    return Run(cfg.scale, task_of(cfg, task).pretrain.share or task, PRETRAINING)


def dense_run(cfg: ScaleConfig, task: str, seed: int) -> Run:
    """The no-pruning run of a seed."""
    return Run(cfg.scale, task, DENSE, seed=seed)


def start_run(run: Run) -> Run:
    """The training of no pruning that a run goes on from where `start_from` is `dense`."""
    return replace(run, method=DENSE, rate=1.0, variant=STARTS.get(run.variant, STARTS[MAIN]))


def runs_of_table(cfg: ScaleConfig, task: str) -> list[Run]:
    """The runs behind a task's main table and the keep-rate table: each method at the main rate, TAP-J at every rate.

    A dense task has one more: no pruning with a random encoder, which says what a trained encoder is worth.

    Raises:
        UserError: the scale does not have the task.
    """
    settings = task_of(cfg, task)
    runs = []
    for method in settings.methods:
        rates = {DENSE: [1.0], TAP: sorted({cfg.main_rate, *cfg.keep_rates})}.get(method, [cfg.main_rate])
        runs += [Run(cfg.scale, task, method, rate, seed=seed) for rate in rates for seed in settings.seeds]
    if TASKS[task].floors and settings.start_from == "dense":  # at paper scale it would cost as much as a method
        runs.append(Run(cfg.scale, task, DENSE, variant=RANDOM_ENCODER, seed=settings.seeds[0]))
    return runs


def job_spec(cfg: ScaleConfig, run: Run) -> JobSpec:
    """Every setting of one run.

    Raises:
        UserError: the run's scale, task or method is not one that the settings know.
    """
    if run.scale != cfg.scale:
        raise UserError(f"run: {run.id} belongs to scale '{run.scale}', the settings are those of '{cfg.scale}'")
    settings = task_of(cfg, run.task)
    if run.method == PRETRAINING:
        if settings.pretrain.share is not None:
            raise UserError(
                f"tasks.{run.task}.pretrain.share: the backbone is that of '{settings.pretrain.share}', whose run is "
                f"{pretraining_run(cfg, run.task).id}"
            )
        if settings.pretrain.train is None:
            raise UserError(
                f"tasks.{run.task}.pretrain: weights are given ({settings.pretrain.weights}), so there is no "
                "pre-training to run; give `train` instead to pre-train here"
            )
        train, start_from = settings.pretrain.train, "scratch"
    elif run.method == DENSE and (settings.start_from == "pretrained" or run.variant in STARTS.values()):
        train, start_from = settings.dense, "scratch" if run.variant in RANDOM_ENCODERS else "pretrained"
    elif run.method in methods_of(run.task):
        train, start_from = settings.method, settings.start_from
    else:
        known = ", ".join((PRETRAINING, *methods_of(run.task)))
        raise UserError(f"method: '{run.method}' is not a method of {run.task}; known: {known}")
    if run.variant not in _variants(run, settings):
        raise UserError(f"variant: {run.id} cannot be made; known here are {', '.join(_variants(run, settings))}")
    if run.method in (PRETRAINING, DENSE) and run.rate != 1.0:
        raise UserError(f"keep rate: '{run.method}' removes nothing, so its rate is 1, not {run.rate}")
    return JobSpec(
        scale=cfg.scale,
        task=run.task,  # type: ignore[arg-type]  Run has checked it
        method=run.method,
        rate=run.rate,
        variant=run.variant,
        seed=run.seed,
        device=cfg.device,
        data=settings.data,
        model=settings.model,
        pretrain=settings.pretrain,
        start_from=start_from,  # type: ignore[arg-type]
        controller=cfg.controller,
        static_split=cfg.static_split,
        train=train,
        options=settings.options.only(run.method),
        recovery=settings.recovery,
        eval=settings.eval,
        profile=settings.profile,
    )


def job_json(spec: JobSpec, job: Job) -> str:
    """The settings that decide the job's result, as one line of JSON: the parameter by which a rule knows of an edit.

    Left out are the settings that only say how to run it, those that this job does not read, and nulls (which are
    always the default, so that a new optional setting repeats no job). `parse_job` puts them back.
    """
    return json.dumps(settings_of(spec.model_dump(mode="json"), job), sort_keys=True, separators=(",", ":"))


def settings_of(tree: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """What a job reads of all settings of its run, given as plain values; without nulls."""
    read = _without_nulls(tree)
    for path in _left_out(tree["method"], job):
        _drop(read, path.split("."))
    return read


def parse_job(text: str, job: Job, cfg: ScaleConfig, run: Run) -> JobSpec:
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


def run_of(spec: JobSpec) -> Run:
    """The run that the settings belong to."""
    return Run(spec.scale, spec.task, spec.method, spec.rate, spec.variant, spec.seed)


def has_teacher(spec: JobSpec) -> bool:
    """Whether a training also learns from the no-pruning checkpoint of its seed."""
    return spec.method in TAUGHT and spec.rate < 1.0


def dense_spec(spec: JobSpec) -> JobSpec:
    """The settings of a run's model without pruning."""
    return spec.model_copy(update={"method": DENSE, "rate": 1.0, "options": None})


def uses_endpoint(spec: JobSpec) -> bool:
    """Whether the endpoint of the common recovery decides anything in a job."""
    return TASKS[spec.task].dense and spec.method in COMMON_RECOVERY and spec.rate < 1.0 and not spec.recovery.zero_fill


def endpoint_specs(cfg: ScaleConfig, task: str) -> list[JobSpec]:
    """The runs that choose a task's endpoint: those at the main rate whose methods read one."""
    specs = [job_spec(cfg, run) for run in runs_of_table(cfg, task)]
    return [spec for spec in specs if spec.rate == cfg.main_rate and uses_endpoint(spec)]


def endpoint_path(scale: str, task: str) -> Path:
    """The file with a task's chosen endpoint."""
    return Path("results") / scale / f"endpoint_{task}.json"


def probes_of(task: str) -> tuple[str, ...]:
    """The kinds of probes that a task has."""
    return TASKS[task].probes


def probed_runs(cfg: ScaleConfig, task: str, kind: str) -> list[Run]:
    """The no-pruning runs whose checkpoints a probe concerns: that of the first seed for `layers`, else all seeds'.

    Raises:
        UserError: the scale does not have the task.
    """
    seeds = task_of(cfg, task).seeds
    return [dense_run(cfg, task, seed) for seed in (seeds[:1] if kind == "layers" else seeds)]


def probe_folder(scale: str, task: str, kind: str) -> Path:
    """Where a task's probes lie: `layers` (criteria at every block) or `recovery` (endpoints)."""
    return Path("results") / scale / "probes" / task / kind


def probe_parameters(cfg: ScaleConfig, task: str, kind: str) -> dict[str, Any]:
    """What a task's probe reads of the settings, as plain values; without nulls.

    Raises:
        UserError: the scale does not have the task.
    """
    jobs = [job_spec(cfg, run) for run in probed_runs(cfg, task, kind)]
    specs = [settings_of(job.model_dump(mode="json", exclude={"profile"}), "evaluate") for job in jobs]
    probes = _without_nulls(task_of(cfg, task).probes.model_dump(mode="json"))
    return {"task": task, "kind": kind, "specs": specs, "probes": probes}


def endpoint_file(spec: JobSpec) -> Path | None:
    """The file that a job reads its endpoint from; None where it needs none or the settings give it."""
    return endpoint_path(spec.scale, spec.task) if uses_endpoint(spec) and spec.recovery.endpoint == "auto" else None


def _variants(run: Run, settings: TaskConfig) -> tuple[str, ...]:
    """The variants that a run of this task and method may have."""
    if run.method != DENSE:
        return (MAIN,)
    unknown = {
        *(() if settings.start_from == "dense" else STARTS.values()),
        *(() if TASKS[run.task].floors else RANDOM_ENCODERS),
    }
    return tuple(variant for variant in VARIANTS if variant not in unknown)


def _left_out(method: str, job: Job) -> tuple[str, ...]:
    without_pruning = _UNREAD_WITHOUT_PRUNING if method in (PRETRAINING, DENSE) else ()
    return (*_UNREAD[job], *without_pruning, *_RUNNING)


def task_of(cfg: ScaleConfig, task: str) -> TaskConfig:
    """Settings of one task.

    Raises:
        UserError: the scale does not have it.
    """
    if task not in cfg.tasks:
        raise UserError(f"task: '{task}' is not among the tasks of scale '{cfg.scale}': {', '.join(cfg.tasks)}")
    return cfg.tasks[task]  # type: ignore[index]


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
