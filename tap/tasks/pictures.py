"""What the pictures of the dense tasks share: pixels, kept patches, colours, and reproducible files."""

from __future__ import annotations

import colorsys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from tap.config.schema import JobSpec
from tap.encoder.trace import Trace
from tap.provenance.files import atomic_write

_LIFT, _DARK = 0.35, 0.2
"""Brightness of black in kept patches, so that they show on a dark image, and what is left of it in removed ones."""


def pixels_of(image: Tensor, spec: JobSpec) -> np.ndarray:
    """Undoes the normalisation: `(C, H, W)` to `(H, W, 3)` in [0, 1]."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (spec.data.mean, spec.data.std))
    return (image * std + mean).clamp(0, 1).expand(3, -1, -1).permute(1, 2, 0).numpy()


def kept_patches(pixels: np.ndarray, trace: Trace, patch: tuple[int, int]) -> np.ndarray:
    """The picture `(H, W, 3)` of the one image of a trace, with the patches darkened that did not reach the last block.

    Args:
        pixels: the image without padding `(H, W, 3)` in [0, 1].
        trace: what a pass over the (padded) image decided.
        patch: height and width of a patch in pixels.
    """
    height, width = pixels.shape[:2]
    grid = trace.kept[max(trace.kept)][0] if trace.kept else torch.ones(trace.grid, dtype=torch.bool)
    mask = grid.view(trace.grid).cpu().numpy().repeat(patch[0], axis=0).repeat(patch[1], axis=1)[:height, :width]
    return (_LIFT + (1 - _LIFT) * pixels) * np.where(mask, 1.0, _DARK)[..., None]


def kept_title(trace: Trace) -> str:
    """How many patches the one image of a trace kept."""
    return f"{int(trace.final_counts[0])} of {trace.grid[0] * trace.grid[1]} patches kept"


def hues(count: int) -> list[tuple[float, float, float]]:
    """Colours that are far apart for neighbouring numbers."""
    golden = 0.618034
    return [colorsys.hsv_to_rgb((0.1 + golden * number) % 1.0, 0.75, 0.95) for number in range(count)]


def save(figure: Figure, path: Path | str) -> Path:
    """Writes a PNG; without the field that names matplotlib's version, equal pictures are equal files."""
    return atomic_write(
        path, lambda temporary: figure.savefig(temporary, format="png", dpi=110, metadata={"Software": None})
    )
