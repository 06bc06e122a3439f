"""A model under a fixed schedule as an ONNX file, for runtimes that know nothing of PyTorch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tap.errors import UserError

aten = torch.ops.aten
_PACKAGES = ("onnx", "onnxscript")


def export_onnx(model: nn.Module, images: Tensor, path: Path | str, overwrite: bool = False) -> Path:
    """Writes the model as ONNX, for batches of the shape that is given.

    Kept patches are those of the model: ONNX breaks ties in a ranking by the lower index, as this project does.

    Args:
        model: one whose counts are fixed, as for `torch.export`; put into evaluation mode by the caller.
        images: `(B, C, H, W)`, normalised; the exported graph takes this shape and no other.
        path: the file to write, such as `model.onnx`.
        overwrite: whether a file that is there may be replaced.

    Returns:
        The file.

    Raises:
        UserError: the packages `onnx` and `onnxscript` are not installed, the model is in training mode, its counts
            differ from image to image, or the file is there already.
    """
    path = Path(path)
    missing = [name for name in _PACKAGES if not _is_installed(name)]
    if missing:
        raise UserError(f"export: ONNX needs {' and '.join(missing)}; pip install {' '.join(_PACKAGES)}")
    if model.training:
        raise UserError("export: the model is in training mode, whose decisions are drawn; call model.eval() first")
    if path.exists() and not overwrite:
        raise UserError(f"{path}: is there already; name another file, or give overwrite=True")
    with torch.no_grad():
        graph = torch.export.export(model, (images,))
        program: Any = torch.onnx.export(
            graph, (images,), dynamo=True, verbose=False, custom_translation_table=_translations()
        )
    program.save(path)
    return path


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _translations() -> dict[Any, Any]:
    """What PyTorch's exporter does not know: stable sorts, and positions of a number of true entries that is known."""
    op = importlib.import_module("onnxscript").opset18

    def sort(values: Any, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:
        return op.TopK(values, op.Constant(value_ints=[values.shape[dim]]), axis=dim, largest=int(descending), sorted=1)

    def argsort(values: Any, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:
        return sort(values, stable, dim, descending)[1]

    def nonzero_static(mask: Any, size: int, fill_value: int = -1) -> Any:
        return op.Transpose(op.NonZero(mask), perm=[1, 0])

    return {
        aten.sort.stable: sort,
        aten.argsort.stable: argsort,
        aten.nonzero_static.default: nonzero_static,
    }
