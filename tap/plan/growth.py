"""At which sizes the growth of time and memory is measured: known without torch, as profiles are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from tap.plan.profiles import PRINTED_SPLITS, Shapes

GROWTH = "growth"
"""What the file of a profile is called that holds the growth."""


class GrowthKey(NamedTuple):
    """Which growth.

    Attributes:
        device: the machine's name in paths.
        shapes: `paper`, or `smoke`, which only shows that it runs.
    """

    device: str
    shapes: Shapes


class Point(NamedTuple):
    """One size.

    Attributes:
        axis: which of the following grows.
        patches: of an image.
        batch: images of a pass.
        rate: keep rate.
    """

    axis: Literal["patches", "batch", "keep rate"]
    patches: int
    batch: int
    rate: float


@dataclass(frozen=True)
class GrowthProtocol:
    """How a growth is taken.

    Attributes:
        width: of the encoder, whose 12 blocks attend globally.
        heads: of its attention.
        points: the sizes.
        dtype: `bf16` autocast or `fp32`.
        warmup: passes of each side that are not measured, beside those that tell its memory.
        iterations: measured passes of each side.
        threads: CPU threads; 0 on a GPU.
    """

    width: int
    heads: int
    points: tuple[Point, ...]
    dtype: Literal["bf16", "fp32"]
    warmup: int
    iterations: int
    threads: int


def growth_protocol(key: GrowthKey) -> GrowthProtocol:
    """ViT-B on a GPU; on a CPU an encoder of a quarter of its width, with the same patches, batches and rates."""
    if key.shapes == "smoke":
        return GrowthProtocol(48, 3, _points((16, 64), (1, 4), (0.5, 1.0), 16, 16), "fp32", 0, 1, 1)
    points = _points((196, 784, 4096, 16384), (1, 4, 16, 64, 256), (0.1, 0.3, 0.5, 0.7, 0.9, 1.0), 196, 784)
    if key.device.startswith("cpu-"):
        return GrowthProtocol(192, 3, points, "fp32", 0, 2, 2)
    return GrowthProtocol(768, 12, points, "bf16", 10, 50, 0)


def growth_parameters(key: GrowthKey) -> dict[str, Any]:
    """All that decides what it does, as JSON values."""
    how = asdict(growth_protocol(key))
    how["points"] = [list(point) for point in how["points"]]
    return {**key._asdict(), "protocol": how, "split": [list(pair) for pair in PRINTED_SPLITS["seg"]]}


def _points(
    patches: tuple[int, ...], batches: tuple[int, ...], rates: tuple[float, ...], of_batches: int, of_rates: int
) -> tuple[Point, ...]:
    """One size grows, the others stay: batch 1, keep rate 0.5, and the last two numbers of patches."""
    return (
        *(Point("patches", count, 1, 0.5) for count in patches),
        *(Point("batch", of_batches, batch, 0.5) for batch in batches),
        *(Point("keep rate", of_rates, 1, rate) for rate in rates),
    )
