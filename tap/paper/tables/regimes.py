"""What tables of TAP's two regimes share: TAP-J (`tap`) and TAP-F (`tap_f`), at several keep rates and in all tasks."""

from __future__ import annotations

from typing import Final

from tap.config.methods import TAP
from tap.paper.measured import Value

REGIMES: Final = {TAP: "j", "tap_f": "f"}
ENCODER, FULL, SPEEDUP, PEAK = "encoder_images_per_second", "full_images_per_second", "encoder_speedup", "peak_gb"
FULL_TOO: Final = ("det",)
"""Tasks of which the paper lists the throughput of the full model, too."""


def first_part(row: str) -> str:
    """The task of a row whose key begins with it, such as `seg_tap_0.5`."""
    return row.partition("_")[0]


def deviation(value: Value | None) -> Value | None:
    """The standard deviation over seeds as a value of its own; None for one seed."""
    return None if value is None or value.sd is None else Value(value.sd, None, value.seeds, value.runs)


def change(value: Value | None, base: Value | None) -> Value | None:
    """By how many percent a value is above another."""
    if value is None or base is None:
        return None
    return Value(100 * (value.mean / base.mean - 1), None, value.seeds, (*value.runs, *base.runs))
