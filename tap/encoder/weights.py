"""Reads backbone weights from files: public MAE checkpoints, timm's, and the ones that the workflow pre-trains."""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from timm.layers import resample_abs_pos_embed
from torch import Tensor

from tap.encoder.low_rank import is_low_rank
from tap.encoder.numpy_pickle import read_arrays
from tap.encoder.relative import resize_table
from tap.encoder.vitdet import on_grid, resize_positions
from tap.errors import UserError

_WRAPPING = {"_orig_mod", "backbone", "encoder", "model", "module", "net", "vit"}
"""Parts of a tensor's name that only say what the backbone was wrapped in: DistributedDataParallel, torch.compile, a
task's model, this project's runs (`encoder.vit`), public ViTDet (`backbone.net`)."""
_STEM = "patch_embed.proj.weight"
_HEADS = ("head.",)
_NORMS = ("norm.", "fc_norm.")
_DECODER = ("decoder", "mask_token")
# Where published checkpoints keep their tensors (MAE and ViTDet: "model").
_WRAPPERS = ("model", "state_dict")
# How torch.load fails on a file that was cut off or has wrong bytes, depending on where (found by trying).
_TORN = (
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    LookupError,
    AssertionError,
    TypeError,
    AttributeError,
    struct.error,
)


def read_tensors(path: Path, expected_sha256: str | None = None) -> dict[str, Tensor]:
    """Reads a file of tensors, after checking its hash; never runs code from it.

    Args:
        path: a `.safetensors` file, a `.pth`/`.pt` file that holds tensors only (possibly under the key `model`), or a
            `.pkl` that holds numpy arrays only (detectron2's model zoo).
        expected_sha256: hash that the file must have; None accepts any.

    Raises:
        UserError: missing file, other hash, truncated file, or a pickle that holds more than tensors.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such weights file; produce it first, or give one that exists")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if expected_sha256 is not None and found != expected_sha256.lower():
        raise UserError(
            f"{path}: its sha256 is {found}, but {expected_sha256} is expected; fetch the file again, or correct the "
            "expected hash if another file is meant"
        )
    if path.suffix != ".safetensors":
        return _read_torch(path, content)
    try:
        return load_safetensors(content)
    except SafetensorError as error:
        raise _damaged(path, error) from error


def _read_torch(path: Path, content: bytes) -> dict[str, Tensor]:
    """Named tensors of what torch.save wrote, in its zip format or as the bare pickle that it was before.

    A `.pkl` holds numpy arrays, as the files of detectron2's model zoo do.
    """
    try:
        if path.suffix == ".pkl":
            loaded: Any = read_arrays(content)
        else:
            loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if content.startswith(b"PK") and not zipfile.is_zipfile(io.BytesIO(content)):
            raise _damaged(path, error) from error
        raise UserError(
            f"{path}: holds pickled objects (or is no checkpoint), and reading those could run foreign code; save its "
            "tensors alone, best as safetensors, and give that file"
        ) from error
    except _TORN as error:
        raise _damaged(path, error) from error
    for wrapper in _WRAPPERS:
        if isinstance(loaded, dict) and isinstance(loaded.get(wrapper), dict):
            loaded = loaded[wrapper]
    if path.suffix == ".pkl" and isinstance(loaded, dict):
        loaded = {n: torch.from_numpy(value) for n, value in loaded.items() if isinstance(value, np.ndarray)}
    if not isinstance(loaded, dict) or not loaded or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise UserError(
            f"{path}: does not hold a table of named tensors; give a state dict, alone or under 'model' or 'state_dict'"
        )
    return loaded


def _damaged(path: Path, error: Exception) -> UserError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return UserError(
        f"{path}: cut off or damaged ({path.stat().st_size} bytes: {reason}); delete it and produce or fetch it again"
    )


def load_backbone(vit: Any, path: Path, expected_sha256: str | None = None, pretrained_only: bool = False) -> None:
    """Fills a timm ViT with pre-trained weights; heads, MAE decoders and wrappers' prefixes in the file are left out.

    A norm behind global pooling is kept where the model has one; where it has none, a warning says so.

    The position embedding is resized where the file has another grid, and a class token that the model does not have is
    dropped together with its position. Relative tables that the file does not have stay at zero.

    Args:
        vit: timm `VisionTransformer`, or a ViTDet trunk made of one.
        path: weights file.
        expected_sha256: hash that the file must have; None accepts any.
        pretrained_only: refuse the file of a model that has been fine-tuned to classes, unless its hash is given.

    Raises:
        UserError: the file cannot be read, is a fine-tuned one where that is refused, or belongs to another
            architecture (nothing is loaded then).
    """
    tensors = backbone_tensors(path, expected_sha256, pretrained_only)
    wanted = {
        name: value
        for name, value in vit.state_dict().items()
        if not name.startswith(_HEADS) and not is_low_rank(name)  # updates are a task's own, never the backbone's
    }
    tensors = _fit_tables(_fit_positions(tensors, vit), wanted)
    # A model that pools globally has no use for the final norm of a class-token checkpoint, and the other way round.
    missing = sorted(name for name in wanted if name not in tensors and not name.startswith(_NORMS))
    unknown = sorted(name for name in tensors if name not in wanted and not name.startswith(_NORMS))
    other = sorted(
        f"{name} {tuple(tensors[name].shape)}, not {tuple(value.shape)}"
        for name, value in wanted.items()
        if name in tensors and tensors[name].shape != value.shape
    )
    problems = [
        f"{len(names)} {what} (first: {names[0]})"
        for what, names in (("missing", missing), ("unknown", unknown), ("of another shape", other))
        if names
    ]
    if problems:
        raise UserError(f"weights: {path} is of another architecture: tensors {'; '.join(problems)}")
    vit.load_state_dict({name: tensors[name] for name in wanted if name in tensors}, strict=False)
    if "norm.weight" in wanted and "norm.weight" not in tensors and "fc_norm.weight" in tensors:
        warnings.warn(
            f"{path}: is of a model that pools globally, and its norm (fc_norm) has no place in one that does not; "
            "give global_pool='avg' to keep it",
            stacklevel=2,
        )


def decoder_tensors(tensors: dict[str, Tensor]) -> list[str]:
    """Names of the tensors of MAE's decoder in a file, which is no part of the backbone."""
    return sorted(name for name in tensors if _without_wrapping(name).startswith(_DECODER))


def _without_wrapping(name: str) -> str:
    parts = name.split(".")
    return ".".join(parts[next((i for i, part in enumerate(parts) if part not in _WRAPPING), 0) :])


def unwrapped(tensors: dict[str, Tensor], stem: str) -> dict[str, Tensor]:
    """The tensors of a model without the prefixes that its wrappers gave their names.

    Args:
        tensors: by name, of a whole checkpoint.
        stem: name of a tensor that every such model has; only names with the same prefix as it are kept.

    Returns:
        The tensors by their plain names; `tensors` itself where nothing is to be taken off.
    """
    wrapped = [name.removesuffix(stem) for name in tensors if name.endswith(f".{stem}")]
    if stem in tensors or len(wrapped) != 1 or not set(wrapped[0].rstrip(".").split(".")) <= _WRAPPING:
        return tensors
    return {n.removeprefix(wrapped[0]): value for n, value in tensors.items() if n.startswith(wrapped[0])}


def backbone_tensors(
    path: Path, expected_sha256: str | None = None, pretrained_only: bool = False
) -> dict[str, Tensor]:
    """A backbone's tensors in a file by their names in a timm ViT, without heads and MAE decoder; as `load_backbone`.

    Raises:
        UserError: the file cannot be read, or is a fine-tuned one where that is refused.
    """
    tensors = read_tensors(path, expected_sha256)
    heads = sorted(name for name in tensors if _without_wrapping(name).startswith((*_HEADS, "fc_norm.")))
    if heads and pretrained_only and expected_sha256 is None:
        raise UserError(
            f"{path}: is no MAE pre-training but fine-tuned to classes (it has {', '.join(heads)}), so that what "
            "starts from it has seen labels; name the pre-training's file, or pin this one's sha256 if it is meant"
        )
    plain = unwrapped(tensors, _STEM)
    return {name: value for name, value in plain.items() if not name.startswith((*_HEADS, *_DECODER))}


def class_token_of(vit: Any) -> Tensor:
    """A model's class token as it enters the first block, with its position `(d,)`.

    Raises:
        UserError: the model has no class token.
    """
    if vit.cls_token is None:
        raise UserError(
            "controller.register_start: this model has no class token that a register could start from; choose 'normal'"
        )
    found = {"cls_token": vit.cls_token.detach()}
    if not getattr(vit, "no_embed_class", False) and vit.pos_embed is not None:
        found["pos_embed"] = vit.pos_embed.detach()
    return _token_with_position(found, vit.patch_embed.num_patches)


def class_token_in(path: Path, expected_sha256: str | None = None) -> Tensor:
    """The class token of a file with a backbone, with its position `(d,)`; arguments as for `load_backbone`.

    Raises:
        UserError: the file cannot be read, or its model has no class token.
    """
    tensors = backbone_tensors(path, expected_sha256)
    if "cls_token" not in tensors:
        raise UserError(
            f"{path}: has no class token that a register could start from; set controller.register_start to 'normal'"
        )
    return _token_with_position(tensors, None)


def _token_with_position(tensors: dict[str, Tensor], patches: int | None) -> Tensor:
    """The class token, and its position where the table has more entries than patches; unknown patches are a square."""
    token, positions = tensors["cls_token"].flatten(), tensors.get("pos_embed")
    if positions is None or positions.ndim != 3:
        return token.clone()
    entries = positions.shape[1]
    has_own = not _is_square(entries) if patches is None else entries > patches
    return token + positions[0, 0] if has_own else token.clone()


def _fit_positions(tensors: dict[str, Tensor], vit: Any) -> dict[str, Tensor]:
    """Fits position embedding and class token to the model: resized to its grid, without a token that it does not have.

    Anything but a grid of another size is left for the check of shapes.
    """
    wanted, found = getattr(vit, "pos_embed", None), tensors.get("pos_embed")
    prefix = 0 if found is None or found.ndim != 3 else _prefix_entries(tensors, found.shape[1], vit)
    tensors = dict(tensors)
    if not vit.has_class_token:
        tensors.pop("cls_token", None)
    if wanted is None or found is None or found.shape == wanted.shape or found.ndim != 3:
        return tensors
    patches, own_prefix = found[:, prefix:], wanted.shape[1] - vit.patch_embed.num_patches
    if vit.has_class_token and prefix > own_prefix:
        return tensors  # its class token would lose its position
    size = vit.patch_embed.grid_size
    if _is_square(patches.shape[1]) and patches.shape[1] != vit.patch_embed.num_patches:
        side = round(patches.shape[1] ** 0.5)
        if on_grid(vit):
            patches = resize_positions(patches, (side, side), size)
        else:
            patches = resample_abs_pos_embed(patches, list(size), num_prefix_tokens=0)
    tensors["pos_embed"] = torch.cat([found[:, : min(prefix, own_prefix)], patches], dim=1)
    return tensors


def _prefix_entries(tensors: dict[str, Tensor], entries: int, vit: Any) -> int:
    """How many of a position table's entries are those of tokens: of class and registers, the class alone, or none.

    Models such as DeiT III and DINOv2 with registers have these tokens and no position for them (timm: no_embed_class);
    public ViTDet has left its class token behind, but not the token's position.
    """
    tokens = sum(tensors[name].shape[1] for name in ("cls_token", "reg_token") if name in tensors)
    usual = 0 if getattr(vit, "no_embed_class", False) else tokens
    return next((count for count in (usual, tokens, 1, 0) if _is_square(entries - count)), usual)


def _is_square(number: int) -> bool:
    return number > 0 and round(number**0.5) ** 2 == number


def _fit_tables(tensors: dict[str, Tensor], wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """Relative tables for the model's own extents; all of them as they are in the model where the file has none."""
    own = {name: value for name, value in wanted.items() if ".rel_pos_" in name}
    if not any(".rel_pos_" in name for name in tensors):
        return tensors | own
    resized = {
        name: resize_table(tensors[name], len(value))
        for name, value in own.items()
        if name in tensors and tensors[name].ndim == 2
    }
    return tensors | resized
