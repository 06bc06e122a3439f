"""Files that several kinds of jobs read."""

from __future__ import annotations

from pathlib import Path

from tap.config.datasets import PREPARED
from tap.config.scale import ScaleConfig
from tap.config.schema import JobSpec
from tap.plan.joint import is_joint
from tap.plan.runs import run_of, task_of
from tap.plan.starts import base_run, given_weights, source_run, starts_from_class_token
from tap.runs import Run


def data_evidence(cfg: ScaleConfig, task: str) -> Path:
    """The file that says that a task's data are there, whole and right."""
    data = task_of(cfg, task).data
    prepared = Path(data.root) / "manifest.json"
    return prepared if data.name in PREPARED else Path("results") / cfg.scale / "data" / f"{task}.json"


def weights(run: Run) -> Path:
    """What a training publishes."""
    return run.folder / "model.safetensors"


def start_weights(spec: JobSpec) -> list[Path]:
    """The weights that a training starts from, and those with the class token that its register starts from.

    None for a random encoder.

    Raises:
        UserError: the file that the settings name is not there, or of another size.
    """
    token = base_weights(spec) if starts_from_class_token(spec) else []
    if spec.start_from in ("pretrained", "joint") and spec.pretrain.weights is not None:
        return base_weights(spec)
    source = source_run(spec)
    return list(dict.fromkeys([*([] if source is None else [weights(source)]), *token]))


def base_weights(spec: JobSpec) -> list[Path]:
    """The file of the pre-training.

    Raises:
        UserError: the file that the settings name is not there, or of another size.
    """
    return [weights(base_run(spec)) if spec.pretrain.weights is None else given_weights(spec.pretrain, spec.task)]


def evaluated_weights(spec: JobSpec) -> list[Path]:
    """The weights that an evaluation reads: those of the run, and the pre-training's, where it is the base of the run
    or its register began with the class token.

    Raises:
        UserError: the file that the settings name is not there, or of another size.
    """
    own = weights(run_of(spec))
    return [own, *base_weights(spec)] if is_joint(spec) or starts_from_class_token(spec) else [own]


def task_with(cfg: ScaleConfig, dataset: str) -> str:
    """The first task with a dataset.

    Raises:
        KeyError: there is none.
    """
    for name, task in cfg.all_tasks.items():
        if task.data.name == dataset:
            return name
    raise KeyError(dataset)


def of_package(*patterns: str) -> list[Path]:
    """Files of the package that are no code, by patterns below its folder."""
    return sorted(path for pattern in patterns for path in Path("tap").glob(pattern))
