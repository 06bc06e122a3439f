"""Files that several kinds of jobs read."""

from __future__ import annotations

from pathlib import Path

from tap.config.datasets import PREPARED
from tap.config.schema import JobSpec, ScaleConfig
from tap.plan.joint import is_joint
from tap.plan.runs import run_of, task_of
from tap.plan.starts import base_run, given_weights, source_run
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
    """The weights that a training starts from; none for a random encoder.

    Raises:
        UserError: the file that the settings name is not there, or of another size.
    """
    if spec.start_from in ("pretrained", "joint") and spec.pretrain.weights is not None:
        return [given_weights(spec.pretrain, spec.task)]
    source = source_run(spec)
    return [] if source is None else [weights(source)]


def evaluated_weights(spec: JobSpec) -> list[Path]:
    """The weights that an evaluation reads: those of the run, and the base where that is a file of its own.

    Raises:
        UserError: the file that the settings name is not there, or of another size.
    """
    own = weights(run_of(spec))
    if not is_joint(spec):
        return [own]
    return [own, weights(base_run(spec)) if spec.pretrain.weights is None else given_weights(spec.pretrain, spec.task)]


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
