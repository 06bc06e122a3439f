"""Weights as files: published as safetensors, read back only if they are whole and fit the model.

Every way in which a file can be wrong (missing, cut off, edited, a pickle with objects, another width, another
architecture) has its own message, and the model is not touched unless all of it fits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor, nn

from tap.encoder.weights import read_tensors
from tap.errors import UserError
from tap.provenance.files import atomic_write


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
    tensors, own = read_tensors(path, expected_sha256), model.state_dict()
    model.load_state_dict({**own, **fitting(path, own, tensors, tuple(new), tuple(left_out))})


def fitting(
    path: Path,
    own: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    new: tuple[str, ...] = (),
    left_out: tuple[str, ...] = (),
) -> dict[str, Tensor]:
    """Checks every name and shape of a file's tensors against those of a model.

    Args:
        path: the file, for messages.
        own: the model's tensors by name.
        tensors: the file's.
        new: beginnings of names that the file may lack.
        left_out: beginnings of names that only the file has and that are ignored.

    Returns:
        The file's tensors that the model has.

    Raises:
        UserError: the file is of another width or architecture.
    """
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
    return {name: tensors[name] for name in common}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
