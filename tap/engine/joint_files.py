"""A joint model as files: the base once, and a small file per task that fits this base and no other.

A task's file holds what belongs to the task, a copy of the readouts (which all tasks share, so that files of different
trainings are refused beside each other), and says of itself which base, task and updates it belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tap.encoder.low_rank import adapted, is_low_rank
from tap.encoder.weights import backbone_tensors, load_backbone, read_tensors
from tap.engine.checkpoint import fitting, save_weights
from tap.errors import UserError
from tap.tasks.joint import JointModel, hash_of_tensors

_KIND = "joint task"
VIT, CONTROLLING = "encoder.vit.", "encoder.reducer."
"""How a view's tensors begin: those of the backbone, and those of what prunes it."""


def save_base(model: JointModel, path: Path | str) -> Path:
    """Writes the frozen base of all tasks as safetensors, whole or not at all."""
    return save_weights(Path(path), model.base(), {"kind": "joint base"})


def load_base(model: JointModel, path: Path | str, sha256: str | None = None) -> None:
    """Fills the base, all of it or nothing.

    Args:
        model: receives it.
        path: what `save_base` wrote.
        sha256: hash that the file must have; None accepts any.

    Raises:
        UserError: the file is missing, damaged, not the expected one, or the base of other tasks or sizes.
    """
    path, own = Path(path), model.base()
    _fill(path, own, read_tensors(path, sha256))


def save_task(model: JointModel, task: str, path: Path | str, about: Mapping[str, Any] | None = None) -> Path:
    """Writes what belongs to a task as safetensors, whole or not at all.

    Args:
        model: the joint model.
        task: whose part is written.
        path: where; replaced if present.
        about: further facts that the file says of itself; JSON values.

    Raises:
        UserError: the model does not have the task, or the file cannot be written.
    """
    tensors = {**model.own(task), **model.readouts()}
    return save_weights(Path(path), tensors, {**(about or {}), **_identity(model, task), "kind": _KIND})


def load_task(model: JointModel, task: str, path: Path | str, sha256: str | None = None, first: bool = False) -> None:
    """Fills a task's part, all of it or nothing.

    Args:
        model: the joint model, its base already in place.
        task: whose part is filled.
        path: what `save_task` wrote.
        sha256: hash that the file must have; None accepts any.
        first: take the readouts from this file; else they must be those that the model has.

    Raises:
        UserError: the file is missing, damaged or not the expected one; it is of another base, task, rank or width; or
            its readouts are of another training than those in the model.
    """
    path = Path(path)
    tensors = read_tensors(path, sha256)
    _check_said(path, _identity(model, task))
    readouts = model.readouts()
    given = {name: tensors[name] for name in readouts if name in tensors}
    if not first and hash_of_tensors(given) != hash_of_tensors(readouts):
        raise UserError(
            f"{path}: its readouts are not those that the model's tasks share, so it comes from another training; load "
            "files of one training, the first of them with first=True"
        )
    _fill(path, {**model.own(task), **readouts}, tensors)


def load_alone(
    view: Any,
    task: str,
    base: Path,
    path: Path,
    base_sha256: str | None = None,
    sha256: str | None = None,
) -> None:
    """Fills the model of a single task, without those that it was trained with: the base, then the task's part.

    Args:
        view: the task's model as its pipeline builds it, with low-rank updates.
        task: whose model it is.
        base: file with the pre-trained backbone.
        path: what `save_task` wrote.
        base_sha256, sha256: hashes that the files must have; None accepts any.

    Raises:
        UserError: a file is missing, damaged or not the expected one, or the task's is of another base, task or rank.
    """
    vit = view.encoder.vit
    load_backbone(vit, base, base_sha256, pretrained_only=base_sha256 is None)
    shapes = {name: tuple(value.shape) for name, value in backbone_tensors(base).items()}
    plain = {name: value for name, value in vit.named_parameters() if not is_low_rank(name)}
    frozen = {name: value for name, value in plain.items() if shapes.get(name) == tuple(value.shape)}
    tensors = read_tensors(path, sha256)
    _check_said(path, _facts(vit, task, hash_of_tensors(frozen)))
    own = {name: value for name, value in view.state_dict().items() if name.removeprefix(VIT) not in frozen}
    _fill(path, own, tensors)


def go_on_from(model: JointModel, task: str, path: Path) -> None:
    """Fills a task's part from that of a training at keep rate 1, all but what steers the pruning, which has not moved.

    Raises:
        UserError: as `load_task`.
    """
    tensors = {n: value for n, value in read_tensors(path).items() if not n.startswith(CONTROLLING)}
    _check_said(path, _identity(model, task))
    _fill(path, {n: value for n, value in model.own(task).items() if not n.startswith(CONTROLLING)}, tensors)


def _check_said(path: Path, wanted: Mapping[str, Any]) -> None:
    """Compares what a file says of itself with the model that it is for."""
    said = _about(path)
    if said.get("kind") != _KIND:
        raise UserError(f"{path}: is no file of one task of a joint model; give one that save_task wrote")
    words = {"task": "task", "rank": "rank of the updates", "alpha": "scale of the updates", "base": "base backbone"}
    for key, name in words.items():
        if said.get(key) != wanted[key]:
            raise UserError(
                f"{path}: its {name} is {said.get(key)}, but the model's is {wanted[key]}; give the file of "
                f"'{wanted['task']}' that was trained on this base"
            )


def _identity(model: JointModel, task: str) -> dict[str, Any]:
    return _facts(model.view(task).encoder.vit, task, model.base_hash(task))


def _facts(vit: Any, task: str, base: str) -> dict[str, Any]:
    _, layer = next(adapted(vit))
    return {"task": task, "rank": layer.rank, "alpha": layer.alpha, "base": base}


def _about(path: Path) -> dict[str, Any]:
    """What a file of this project says of itself; nothing where it says nothing."""
    try:
        with safe_open(path, framework="pt") as file:
            return json.loads((file.metadata() or {}).get("tap", "{}"))
    except (SafetensorError, json.JSONDecodeError) as error:
        raise UserError(f"{path}: is no safetensors file of this project ({error}); give one that it wrote") from error


@torch.no_grad()
def _fill(path: Path, own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Checks every name and shape, then copies into the tensors that the model has."""
    found = fitting(path, own, tensors)
    for name, value in found.items():
        own[name].copy_(value)
