"""Replays jobs with the code of one tree and writes down the bits that they compute.

One file, run as a script with a tree on PYTHONPATH: today's, or that of an older commit, which knows nothing of it. So
it imports nothing of the package beside these interfaces of the tree that it runs in, and says so if one is missing:

* ``tap.config.schema.JobSpec``; ``tap.config.load.load_scale`` (probes);
* ``tap.tasks.registry.get_task(spec)``, with ``datasets(spec).train`` and ``build_model(spec)``;
* ``tap.engine.job.train_run(spec, task)``, which keeps its states in ``tap.engine.job.ResumeStates(folder, identity,
  report)`` by ``load()`` and ``save(step, content)``, the content being a dict with ``step``, ``model``, ``optimizer``,
  ``ema`` and ``rows``;
* for joint trainings ``tap.engine.joint_job.train_joint_run(specs)`` with its own ``ResumeStates`` and ``get_task``;
* ``tap.engine.streams.Stream`` and ``total_steps``; where a step trains one task of several,
  ``tap.engine.joint.task_of_step(tasks, sampler_seed, step)``;
* ``tap.studies.evaluation.evaluate_run(spec, task)``; ``tap.studies.probes.run_layer_probe(cfg, task)`` and
  ``run_recovery_probe(cfg, task)``;
* for fingerprints: the ``code`` of ``tap.jobs.registry.JOBS``, or ``tap.provenance.behind``.

A request may be ``brief``: fewer steps and images, for the further seeds of settings that are replayed in full.

The current folder is a scratch project: what the jobs read lies there, and what they make stays there.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import hashlib
import importlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

FIRST_STEPS = 2
PLACES = (0.25, 0.75)
"""Shares of a training at which one more step is replayed, beside its first ones and its last one."""
IMAGES, REGISTER_IMAGES, PROBE_IMAGES = 16, 4, 4
"""Of an evaluation, of a register's diagnostics, which pass each image ten times, and of a probe."""
BRIEF_IMAGES, BRIEF_REGISTER_IMAGES = 8, 1
"""The same of a brief evaluation."""
CALIBRATION_IMAGES = 32
"""For the threshold of a method that has one, whose search passes them some dozen times."""
_TIMED = ("per_second", "speedup", "seconds", "latency")
"""Parts of names of metrics that are measured by the clock: no replay can repeat these."""


class Missing(Exception):
    """The tree lacks an interface that a replay needs."""


class _Enough(Exception):
    """Ends a training after the steps that are replayed."""


class Trace:
    """What a job computed, in order: where, what, and the hash of its bits."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, str]] = []

    def add(self, place: str, name: str, value: Any) -> None:
        """Notes a tensor, array, number or text, or all of a container of these."""
        if isinstance(value, dict):
            for key, part in value.items():
                self.add(place, f"{name} {key}" if name else str(key), part)
        elif isinstance(value, list | tuple):
            for key, part in enumerate(value):
                self.add(place, f"{name}.{key}", part)
        else:
            self.entries.append((place, name, hash_of_value(value)))


def hash_of_value(value: Any) -> str:
    """Hash of the bits of a value, with its type and shape."""
    if hasattr(value, "detach"):
        import torch

        tensor = value.detach().cpu().contiguous()
        head, data = f"{tensor.dtype} {tuple(tensor.shape)}", tensor.flatten().view(torch.uint8).numpy().tobytes()
    elif hasattr(value, "tobytes"):
        head, data = f"{value.dtype} {value.shape}", value.tobytes()
    elif isinstance(value, float):
        head, data = "float", value.hex().encode()
    else:
        head, data = type(value).__name__, str(value).encode()
    return hashlib.sha256(f"{head}\n".encode() + data).hexdigest()


def take(module: str, name: str) -> Any:
    """An interface of the tree.

    Raises:
        Missing: the tree does not have it.
    """
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Missing(f"{module}.{name} ({error})") from error


def replay_training(request: dict[str, Any]) -> Trace:
    """A training's first steps from its own start, later ones at their places in the schedule, and its end.

    The steps in between start from the weights and the optimizer's state after the first ones; the last ones from the
    weights that the training has published, where they are there. The last call goes through to the published files.
    """
    for name in ("ResumeStates", "train_run"):
        take("tap.engine.job", name)
    job = importlib.import_module("tap.engine.job")
    spec = _training_spec(request["spec"])
    task = take("tap.tasks.registry", "get_task")(spec)
    trace, gradients = Trace(), {}
    _watch(task, gradients)
    stream = take("tap.engine.streams", "Stream")(len(task.datasets(spec).train), spec.train.batch_size, spec.seed)
    total = take("tap.engine.streams", "total_steps")(spec.train, stream.steps_per_epoch)
    how = {"loop": take("tap.engine.joint", "train_mixed")} if getattr(spec, "mixed", None) else {}
    tasks = [spec.task, *(getattr(spec, "mixed", None) or {})]
    parts = segments(total, request.get("brief", False), _drawn(tasks, request))
    _replay_steps(trace, job, parts, gradients, lambda: job.train_run(spec, task, **how), request.get("weights"))
    _add_published(trace, "end", Path(request["folder"]))
    return trace


def replay_joint_training(request: dict[str, Any]) -> Trace:
    """A joint training of several tasks, as `replay_training`; the last steps start as those in between."""
    for name in ("ResumeStates", "train_joint_run", "get_task"):
        take("tap.engine.joint_job", name)
    job = importlib.import_module("tap.engine.joint_job")
    specs = {task: _training_spec(settings) for task, settings in request["specs"].items()}
    total = take("tap.engine.streams", "total_steps")(next(iter(specs.values())).train, 1)
    trace, gradients, get_task = Trace(), {}, job.get_task
    tasks: dict[str, Any] = {}

    def watched(spec: Any) -> Any:
        if spec.task not in tasks:
            tasks[spec.task] = get_task(spec)
            _watch(tasks[spec.task], gradients, f"{spec.task} ")
        return tasks[spec.task]

    job.get_task = watched
    parts = segments(total, request.get("brief", False), _drawn(list(specs), request))
    try:
        _replay_steps(trace, job, parts, gradients, lambda: job.train_joint_run(specs))
    finally:
        job.get_task = get_task
    for task, folder in request["folders"].items():
        _add_published(trace, f"end of {task}", Path(folder))
    return trace


def _replay_steps(
    trace: Trace,
    job: Any,
    parts: list[tuple[int, int]],
    gradients: dict[str, Any],
    run: Any,
    weights: str | None = None,
) -> None:
    """Runs parts of a training, each from the state that the one before has left.

    Args:
        trace: takes what every step leaves.
        job: module of the training, whose `ResumeStates` are replaced.
        parts: `segments` of the training, whose last one ends it.
        gradients: where gradients are noted; emptied at each step.
        run: starts the training.
        weights: what the training has published, for its last steps.
    """
    kept: dict[str, Any] = {}
    total = sum(parts[-1])

    class States:
        """Gives the training a state to go on from, and looks at every one that it keeps."""

        finished = False
        given: Any = None
        until = 0

        def __init__(self, folder: Path, *_: Any) -> None:
            self.folder = folder

        def held(self) -> Any:
            return contextlib.nullcontext()

        def load(self) -> Any:
            return copy.deepcopy(States.given)

        def save(self, step: int, content: dict[str, Any]) -> None:
            place = f"step {step - 1}"
            trace.add(place, "log", content["rows"][-1])
            for name, gradient in gradients.items():
                trace.add(place, f"gradient of {name}", gradient)
            for part in ("model", "optimizer", "ema"):
                trace.add(place, part, content[part] or {})
            gradients.clear()
            if States.until <= step < total:
                kept.update(copy.deepcopy({key: value for key, value in content.items() if key != "rows"}), rows=[])
                raise _Enough

        def finish(self) -> None:
            """Nothing to remove."""

    job.ResumeStates = States
    for start, steps in parts:
        States.given = {**kept, "step": start} if kept else None
        if start and start + steps == total and weights:
            States.given["model"] = _weights(weights, kept["model"])
        States.until = start + steps
        with contextlib.suppress(_Enough):
            run()


def _add_published(trace: Trace, place: str, folder: Path) -> None:
    """Notes what a training has published."""
    record = json.loads((folder / "run.json").read_text())
    trace.add(place, "calibration", {key: record[key] for key in sorted(record) if key.startswith("calibra")})
    load = take("safetensors.torch", "load_file")
    trace.add(place, "published", dict(sorted(load(folder / "model.safetensors").items())))
    trace.add(place, "log", _rows(folder / "log.csv"))


def _drawn(tasks: list[str], request: dict[str, Any]) -> Any:
    """Which task each step of a training trains; the one of all steps where nothing is drawn."""
    if request.get("sampler_seed") is None:
        return lambda step: tasks[0]
    task_of_step = take("tap.engine.joint", "task_of_step")
    return lambda step: task_of_step(tasks, request["sampler_seed"], step)


def segments(total: int, brief: bool = False, task_of: Any = lambda step: "") -> list[tuple[int, int]]:
    """Which steps of a training are replayed, as starts and lengths: all of a short one.

    Args:
        total: steps of the whole training.
        brief: only the first step and the last one.
        task_of: the task of a step; from each of the places on, the next step of a task without one is taken.
    """
    first = min(1 if brief else FIRST_STEPS, total)
    found, reached = [(0, first)], first
    seen = {task_of(step) for step in range(first)}
    for share in () if brief else PLACES:
        place = max(int(total * share), reached)
        step = next((step for step in range(place, total) if task_of(step) not in seen), place)
        if step < total:
            found.append((step, 1))
            seen.add(task_of(step))
            reached = step + 1
    return found if reached == total else [*found, (total - 1, 1)]


def replay_evaluation(request: dict[str, Any]) -> Trace:
    """An evaluation's first images, with the published weights."""
    limits: dict[str, Any] = {}
    if "profile" in request["spec"]:  # of a tree whose evaluations measured throughput as well
        limits["profile"] = {"warmup": 1, "iterations": 1}
    data, evaluation = request["spec"]["data"], request["spec"]["eval"]
    images, register = (BRIEF_IMAGES, BRIEF_REGISTER_IMAGES) if request.get("brief") else (IMAGES, REGISTER_IMAGES)
    limits["data"] = {"limit_val": _at_most(images, data.get("limit_val"))}
    if "register_images" in evaluation:  # an older tree has no such diagnostics
        limits["eval"] = {"register_images": _at_most(register, evaluation["register_images"])}
    spec = _spec(request["spec"], limits)
    task = take("tap.tasks.registry", "get_task")(spec)
    take("tap.studies.evaluation", "evaluate_run")(spec, task)
    folder, trace = Path(request["folder"]), Trace()
    _add_arrays(trace, folder / "per_sample.npz")
    metrics = json.loads((folder / "metrics.json").read_text())
    trace.add("all images", "", {key: metrics[key] for key in sorted(metrics) if not any(t in key for t in _TIMED)})
    return trace


def replay_probe(request: dict[str, Any]) -> Trace:
    """A probe's first images, with the published weights."""
    cfg = take("tap.config.load", "load_scale")(request["scale"])
    task, kind = request["task"], request["kind"]
    probes = cfg.tasks[task].probes
    probes = probes.model_copy(update={"images": _at_most(PROBE_IMAGES, probes.images)})
    tasks = {**cfg.tasks, task: cfg.tasks[task].model_copy(update={"probes": probes})}
    name = "run_layer_probe" if kind == "layers" else "run_recovery_probe"
    take("tap.studies.probes", name)(cfg.model_copy(update={"tasks": tasks}), task)
    folder, trace = Path(request["folder"]), Trace()
    _add_arrays(trace, folder / "per_sample.npz")
    trace.add("all images", "values", _rows(folder / "values.csv"))
    return trace


def fingerprint(request: dict[str, Any]) -> str | None:
    """Hash of the tree's code behind a job; None where the tree does not have it, or cannot say it.

    Args:
        request: with `job` (train, evaluate, probe), `task` and `method`.
    """
    try:
        return _fingerprint(**request).partition(" ")[0]
    except Exception as error:  # of an unknown task or method, in the tree's own words
        print(f"{request}: {error!r}", file=sys.stderr)
        return None


def _fingerprint(job: str, scale: str, run: str, task: str, method: str, kind: str) -> str:
    try:
        jobs = importlib.import_module("tap.jobs.registry").JOBS
    except ImportError:
        names = {"train": "code_of_training", "evaluate": "code_of_evaluation", "probe": "code_of_probe"}
        code = take("tap.provenance.behind", names[job])
        return code(task) if job == "probe" else code(task, method)
    cfg = take("tap.config.load", "load_scale")(scale)
    content = {"run": run, "parameters": {"task": task, "kind": kind}}
    return jobs[job].code(cfg, jobs[job].key_of_record(cfg, content))


def _spec(settings: dict[str, Any], changes: dict[str, dict[str, Any]]) -> Any:
    """The settings of a job in the tree's own form, cut short."""
    whole = copy.deepcopy(settings)
    whole["data"]["workers"] = 0
    for part, values in changes.items():
        whole[part].update(values)
    return take("tap.config.schema", "JobSpec").model_validate(whole)


def _training_spec(settings: dict[str, Any]) -> Any:
    """The settings of a training that shows every step, and calibrates on fewer images."""
    changes: dict[str, dict[str, Any]] = {"train": {"log_steps": 1, "checkpoint_seconds": 1e-9}}
    if "limit_calibration" in settings["data"]:  # an older tree has no such limit
        changes["data"] = {"limit_calibration": _at_most(CALIBRATION_IMAGES, settings["data"]["limit_calibration"])}
    return _spec(settings, changes)


def _at_most(images: int, given: int | None) -> int:
    """A number of images, or the fewer that the settings give; None gives no limit."""
    return min(given or images, images)


def _watch(task: Any, gradients: dict[str, Any], prefix: str = "") -> None:
    """Has every model that a task builds note its gradients, by names with a prefix, and its data opened once."""
    build, open_splits, opened = task.build_model, task.datasets, {}

    def datasets(spec: Any) -> Any:
        key = spec.model_dump_json()
        if key not in opened:
            opened[key] = open_splits(spec)
        return opened[key]

    def built(spec: Any) -> Any:
        model = build(spec)
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            parameter.register_post_accumulate_grad_hook(
                lambda part, name=name: gradients.__setitem__(f"{prefix}{name}", part.grad.detach().clone())
            )
        return model

    task.build_model, task.datasets = built, datasets


def _weights(path: str, like: dict[str, Any]) -> dict[str, Any]:
    """Published weights in the order and form of a model's state."""
    found = take("safetensors.torch", "load_file")(path)
    return {name: found.get(name, value) for name, value in like.items()}


def _add_arrays(trace: Trace, path: Path) -> None:
    import numpy as np

    with np.load(path) as arrays:
        for name in sorted(arrays.files):
            trace.add("all images", name, arrays[name])


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def replay(request: dict[str, Any]) -> dict[str, Any]:
    """What a job computed, or why it did not."""
    replays = {
        "train": replay_training,
        "train_joint": replay_joint_training,
        "evaluate": replay_evaluation,
        "probe": replay_probe,
    }
    try:
        return {"trace": replays[request["job"]](request).entries}
    except Missing as error:
        return {"missing": str(error)}
    except Exception as error:  # whatever the code of the tree does is what the replay shows
        return {"error": f"{type(error).__name__}: {error}"}


def main(arguments: list[str]) -> None:
    """``driver.py REQUESTS ANSWERS``: reads what to do, and writes what came of each job into a line of its own."""
    requests = json.loads(Path(arguments[0]).read_text())
    answer = fingerprint if requests["do"] == "fingerprints" else replay
    keys = [json.dumps(request, sort_keys=True) for request in requests["jobs"]]
    shared = {
        key for key, times in Counter(keys).items() if times > 1
    }  # a joint training, asked for by each task's run
    known: dict[str, str] = {}
    with open(arguments[1], "w", encoding="utf-8") as answers:
        for key, request in zip(keys, requests["jobs"], strict=True):
            line = known.get(key) or json.dumps(answer(request))
            if key in shared:
                known[key] = line
            answers.write(f"{line}\n")
            answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
