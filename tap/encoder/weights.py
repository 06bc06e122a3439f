"""Reads backbone weights from files: public MAE checkpoints, timm's, and the ones that the workflow pre-trains."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from timm.layers import resample_abs_pos_embed
from torch import Tensor

from tap.errors import UserError

_OWN_PREFIX = "encoder.vit."
_HEADS = ("head.", "fc_norm.")
_DECODER = ("decoder", "mask_token")


def read_tensors(path: Path, expected_sha256: str | None = None) -> dict[str, Tensor]:
    """Reads a file of tensors, after checking its hash; never runs code from it.

    Args:
        path: a `.safetensors` file, or a `.pth`/`.pt` file that holds tensors only (possibly under the key `model`).
        expected_sha256: hash that the file must have; None accepts any.

    Raises:
        UserError: missing file, other hash, truncated file, or a pickle that holds more than tensors.
    """
    if not path.is_file():
        raise UserError(f"weights: {path} does not exist; give a .safetensors or tensor-only .pth file")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if expected_sha256 is not None and found != expected_sha256.lower():
        raise UserError(f"weights: {path} has sha256 {found}, expected {expected_sha256}; fetch the file again")
    if path.suffix == ".safetensors":
        try:
            return load_safetensors(content)
        except SafetensorError as error:
            raise UserError(f"weights: {path} is not a complete safetensors file ({error}); fetch it again") from error
    try:
        loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"weights: {path} is truncated or holds more than tensors ({reason}); fetch it again, or convert it to "
            "safetensors with the code that wrote it"
        ) from error
    if isinstance(loaded, dict) and isinstance(loaded.get("model"), dict):
        loaded = loaded["model"]
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise UserError(f"weights: {path} is not a dictionary of tensors; give the state dict of a ViT")
    return loaded


def load_backbone(vit: Any, path: Path, expected_sha256: str | None = None) -> None:
    """Fills a timm ViT with pre-trained weights; heads and MAE decoders in the file are left out.

    The position embedding is resized where the file has another grid.

    Args:
        vit: timm `VisionTransformer`.
        path: weights file.
        expected_sha256: hash that the file must have; None accepts any.

    Raises:
        UserError: the file cannot be read, or it belongs to another architecture (nothing is loaded then).
    """
    tensors = read_tensors(path, expected_sha256)
    if any(name.startswith(_OWN_PREFIX) for name in tensors):
        tensors = {name.removeprefix(_OWN_PREFIX): value for name, value in tensors.items() if name.startswith(_OWN_PREFIX)}
    wanted = {name: value for name, value in vit.state_dict().items() if not name.startswith(_HEADS)}
    tensors = {name: value for name, value in tensors.items() if not name.startswith((*_HEADS, *_DECODER))}
    if "pos_embed" in tensors and "pos_embed" in wanted:
        tensors["pos_embed"] = _fit_positions(tensors["pos_embed"], wanted["pos_embed"], vit)
    # A model that pools globally has no use for the final norm of a class-token checkpoint, and the other way round.
    missing = sorted(name for name in wanted if name not in tensors and not name.startswith("norm."))
    unknown = sorted(name for name in tensors if name not in wanted and not name.startswith("norm."))
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


def _fit_positions(positions: Tensor, wanted: Tensor, vit: Any) -> Tensor:
    """Resizes a position embedding to the model's grid; leaves anything that is not a square grid for the shape check."""
    prefix = 0 if vit.no_embed_class else vit.num_prefix_tokens
    side = round((positions.shape[1] - prefix) ** 0.5)
    if positions.shape == wanted.shape or side * side != positions.shape[1] - prefix:
        return positions
    return resample_abs_pos_embed(positions, new_size=list(vit.patch_embed.grid_size), num_prefix_tokens=prefix)
