"""A person's file with pre-trained weights: is it what the trainings of a task are to start from?"""

from __future__ import annotations

from tap.config.schema import JobSpec
from tap.config.task import TaskConfig
from tap.encoder.weights import decoder_tensors, load_backbone, read_tensors
from tap.errors import UserError
from tap.plan.starts import given_weights
from tap.provenance.files import sha256_file
from tap.reducers.build import build_vit
from tap.tasks.report import Report


def look_at_weights(report: Report, task: str, settings: TaskConfig) -> None:
    """Notes what a file of weights is, or what is wrong with it; nothing where the settings name none.

    The size and the hash that the settings state are compared before the file is parsed.

    Args:
        report: takes facts and problems.
        task: whose weights.
        settings: of the task.
    """
    pretrain = settings.pretrain
    if pretrain.weights is None:
        return
    try:
        path = given_weights(pretrain, task)
        tensors = read_tensors(path, pretrain.sha256)
        load_backbone(build_vit(settings.model), path, pretrain.sha256, pretrained_only=True)
    except UserError as error:
        report.problem(f"weights of {task}: {error}")
        return
    found = sha256_file(path)
    pinned = "pinned" if pretrain.sha256 else f"not pinned; {_how_to_pin(task, found)}"
    decoder = len(decoder_tensors(tensors))
    report.facts.append(f"weights of {task}: {path}, {path.stat().st_size} bytes, sha256 {found} ({pinned})")
    if decoder:
        report.facts.append(f"weights of {task}: {decoder} tensors are those of MAE's decoder, which is left out")


def unpinned(spec: JobSpec) -> str | None:
    """What to tell who trains from a file that no hash in the settings holds fast; None where nothing is to be told."""
    read = spec.start_from in ("pretrained", "joint") and spec.pretrain.weights is not None
    if not read or spec.pretrain.sha256 is not None:
        return None
    path = given_weights(spec.pretrain, spec.task)
    return f"{path} is not pinned; {_how_to_pin(spec.task, sha256_file(path))}"


def _how_to_pin(task: str, found: str) -> str:
    setting = f"tasks.{task}.pretrain.sha256: {found}"
    return f"put `{setting}` into params.yaml (overrides: paper:), so that no other file is taken"
