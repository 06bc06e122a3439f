"""What the pictures of the tasks share: pixels, kept patches, colours, reproducible files."""

from __future__ import annotations

import colorsys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from tap.config.schema import JobSpec
from tap.encoder.trace import Trace
from tap.provenance.files import atomic_write
from tap.tasks.view import darkened


def pixels_of(image: Tensor, spec: JobSpec) -> NDArray:
    """Undoes the normalisation: `(C, H, W)` to `(H, W, 3)` in [0, 1]."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (spec.data.mean, spec.data.std))
    return (image * std + mean).clamp(0, 1).expand(3, -1, -1).permute(1, 2, 0).numpy()


def kept_patches(pixels: NDArray, trace: Trace, patch: tuple[int, int]) -> NDArray:
    """`darkened` for the one image of a trace, where patches did not reach the last block.

    Args:
        pixels: the image without padding `(H, W, 3)` in [0, 1].
        trace: what a pass over the (padded) image decided.
        patch: height and width of a patch in pixels.
    """
    grid = trace.kept[max(trace.kept)][0] if trace.kept else torch.ones(trace.grid, dtype=torch.bool)
    return darkened(pixels, grid.view(trace.grid).cpu().numpy(), patch)


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
