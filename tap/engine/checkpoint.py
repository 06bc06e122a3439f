"""Weights as files: published as safetensors, read back only if they are whole and fit the model.

Every way in which a file can be wrong (missing, cut off, edited, a pickle with objects, another width, another
architecture) has its own message, and the model is not touched unless all of it fits.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn

from tap.errors import UserError
from tap.provenance.files import atomic_write, sha256_file

_TRUNK = "encoder.vit."
# Where published checkpoints keep their tensors (MAE and ViTDet: "model"), and what only their pre-training uses.
_WRAPPERS = ("model", "state_dict")
_PRETRAINING_ONLY = ("decoder", "mask_token", "head.", "fc_norm.")


def save_weights(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, object]) -> Path:
    """Publishes weights as a safetensors file that appears whole; equal tensors and facts give equal bytes.

    Args:
        path: where; replaced if present.
        tensors: the state dict.
        about: what the file says of itself (run, settings); JSON values.
    """
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One metadata entry only: safetensors writes several in an order that changes from call to call.
    metadata = {"tap": json.dumps(about, sort_keys=True)}
    return atomic_write(path, lambda temporary: save_file(whole, temporary, metadata=metadata))


def read_about(path: Path) -> dict[str, object]:
    """What a file written by `save_weights` says of itself; empty for a file of another origin."""
    with safe_open(path, framework="pt") as file:
        return json.loads((file.metadata() or {}).get("tap", "{}"))


def load_weights(
    path: str | Path,
    model: nn.Module,
    expected_sha256: str | None = None,
    new: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> None:
    """Loads a checkpoint into `model`, all of it or nothing.

    Args:
        path: ``.safetensors``, or a ``.pth`` / ``.pt`` / ``.bin`` file that holds tensors only.
        model: receives the weights.
        expected_sha256: hash that the file must have.
        new: beginnings of parameter names that the file may lack; those keep their initial values.
        left_out: beginnings of names that only the file has and that are ignored.

    Raises:
        UserError: the file is missing, damaged, not the expected one, unsafe, or of another width or architecture.
    """
    path = Path(path)
    tensors = read_tensors(path, expected_sha256)
    _fill(path, model, tensors, tuple(new), tuple(left_out))


def load_trunk(path: str | Path, vit: nn.Module, expected_sha256: str | None = None) -> None:
    """Loads a pre-trained trunk into a timm ViT: a run of this project, or a public MAE checkpoint.

    Takes the ``encoder.vit.`` part of a run's weights, or the whole of a file in the naming of MAE and timm, without
    what only pre-training or another head needs. Position embeddings of another grid are resized (bicubic), and a class
    token that `vit` does not have is dropped together with its position.

    Raises:
        UserError: as `load_weights`.
    """
    path = Path(path)
    tensors = read_tensors(path, expected_sha256)
    if any(name.startswith(_TRUNK) for name in tensors):
        tensors = {name.removeprefix(_TRUNK): tensor for name, tensor in tensors.items() if name.startswith(_TRUNK)}
    own = set(vit.state_dict())
    tensors = {
        name: tensor for name, tensor in tensors.items() if name in own or not name.startswith(_PRETRAINING_ONLY)
    }
    _fill(path, vit, _fit_positions(tensors, vit), (), ())


def read_tensors(path: Path, expected_sha256: str | None = None) -> dict[str, Tensor]:
    """Reads the named tensors of a checkpoint onto the CPU, without ever running code from it.

    Raises:
        UserError: the file is missing, damaged, not the expected one, or holds anything but tensors.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such checkpoint; produce it first, or give the path of one that exists")
    if expected_sha256 is not None:
        found = sha256_file(path)
        if found != expected_sha256.lower():
            raise UserError(
                f"{path}: its sha256 is {found}, but {expected_sha256} is expected; fetch the file again, or correct "
                "the expected hash if another file is meant"
            )
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except SafetensorError as error:
            raise _damaged(path, error) from error
    return _read_torch(path)


def _read_torch(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        archive = file.read(2) == b"PK"  # since torch 1.6 a zip archive, before it a bare pickle
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if archive and not zipfile.is_zipfile(path):
            raise _damaged(path, error) from error
        raise UserError(
            f"{path}: holds pickled objects (or is no checkpoint), and reading those could run foreign code; save its "
            "tensors alone, best as safetensors, and give that file"
        ) from error
    except (RuntimeError, EOFError) as error:
        raise _damaged(path, error) from error
    for wrapper in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    tensors = content if isinstance(content, dict) else {}
    if not tensors or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise UserError(
            f"{path}: does not hold a table of named tensors; give a state dict, alone or under 'model' or 'state_dict'"
        )
    return dict(tensors)


def _damaged(path: Path, error: Exception) -> UserError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return UserError(
        f"{path}: cut off or damaged ({path.stat().st_size} bytes: {reason}); delete it and produce or fetch it again"
    )


def _fill(
    path: Path, model: nn.Module, tensors: Mapping[str, Tensor], new: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    """Checks every name and shape, then loads."""
    own = model.state_dict()
    common = own.keys() & tensors.keys()
    missing = sorted(name for name in own.keys() - tensors.keys() if not name.startswith(new))
    surplus = sorted(name for name in tensors.keys() - own.keys() if not name.startswith(left_out))
    if not common or len(missing) + len(surplus) > len(common):
        raise UserError(
            f"{path}: weights of another architecture: it has {_some(sorted(tensors))}, the model "
            f"{_some(sorted(own))}; give a checkpoint of this model"
        )
    reshaped = [name for name in own if name in common and own[name].shape != tensors[name].shape]
    if reshaped:
        name = reshaped[0]
        raise UserError(
            f"{path}: weights of another size: '{name}' is {tuple(tensors[name].shape)} in the file and "
            f"{tuple(own[name].shape)} in the model ({len(reshaped)} such tensors); give a checkpoint of this width, "
            "resolution and class count, or change the model's settings"
        )
    if missing:
        raise UserError(
            f"{path}: lacks {len(missing)} of the model's tensors ({_some(missing)}); give a complete checkpoint of "
            "this depth and method"
        )
    if surplus:
        raise UserError(
            f"{path}: has {len(surplus)} tensors that the model does not have ({_some(surplus)}); give a checkpoint of "
            "this depth and method"
        )
    model.load_state_dict({**own, **{name: tensors[name] for name in common}})


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _fit_positions(tensors: dict[str, Tensor], vit: nn.Module) -> dict[str, Tensor]:
    """Adapts the position embedding to the grid and the prefix of `vit`."""
    wanted = vit.state_dict().get("pos_embed")
    found = tensors.get("pos_embed")
    if wanted is None or found is None or found.ndim != 3 or found.shape[2] != wanted.shape[2]:
        return tensors  # a difference that `_fill` names
    tensors = dict(tensors)
    prefix = int("cls_token" in tensors)
    if not vit.has_class_token:
        tensors.pop("cls_token", None)
    if found.shape != wanted.shape:
        patches = found[:, prefix:]
        own_prefix = wanted.shape[1] - vit.patch_embed.num_patches
        if patches.shape[1] != vit.patch_embed.num_patches:
            patches = resample_abs_pos_embed(patches, list(vit.patch_embed.grid_size), num_prefix_tokens=0)
        tensors["pos_embed"] = torch.cat([found[:, :prefix][:, :own_prefix], patches], dim=1)
    return tensors
