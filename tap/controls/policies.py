"""Controls of a trained TAP checkpoint as data: what each one puts in the place of what the register decides.

A control changes the allocation, the matching or the recovery scale of an evaluation and leaves everything else as it
is (Sec. Controls and reporting protocol). Names are the row keys of the paper's tables where it has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from tap.encoder.recovery_buffer import Matching

Scale = Literal["learned", "off"] | float | tuple[float, ...]
"""Recovery scale: the register's, none at all (zero-fill), one number, or one number for each pruning block."""

MATCHINGS: Final[Mapping[str, Matching]] = {
    "key": "key",
    "token": "token",
    "spatial": "spatial",
    "top_score": "score",
    "random": "random",
    "direct": "final",
}
"""Matching rules by the row keys of tab:matching-ablation."""

ENDPOINTS: Final[Mapping[str, Scale]] = {"0": 0.0, "learned": "learned", "1": 1.0}
"""Recovery scales by the column keys of tab:matching-recovery."""

EARLY_HEAVY: Final = (45.0, 35.0, 20.0)
LATE_HEAVY: Final = (20.0, 30.0, 50.0)
"""Fixed splits of tab:allocation-controls, in percent of the removal budget at the first to the last pruning block."""

FULL: Final = "full"
"""The checkpoint as it is."""


@dataclass(frozen=True)
class Control:
    """One evaluation of a checkpoint.

    Attributes:
        name: key of its row.
        schedule: shares of the removal budget at each pruning block; None is the register's allocation per image.
        matching: how stand-ins are chosen.
        scale: how much of the offsets is given back.
    """

    name: str
    schedule: tuple[float, ...] | None = None
    matching: Matching = "key"
    scale: Scale = "learned"


@dataclass(frozen=True)
class Means:
    """What the register decides on average over the images of a split.

    Attributes:
        shares: mean share of the removal budget at each pruning block; they sum to 1.
        scales: mean recovery scale at each pruning block; empty for a task without recovery.
    """

    shares: tuple[float, ...]
    scales: tuple[float, ...] = ()


def recovery_controls() -> list[Control]:
    """Recovery off and both endpoints, with the register's allocation (tab:ablation)."""
    return [
        Control("zero_fill", scale="off"),
        Control("alpha_1", scale=1.0),
        Control("alpha_0", scale=0.0),
    ]


def matching_controls() -> list[Control]:
    """Every matching rule with every endpoint (tab:matching-ablation, tab:matching-recovery)."""
    return [
        Control(f"matching_{rule}_{endpoint}", matching=matching, scale=scale)
        for rule, matching in MATCHINGS.items()
        for endpoint, scale in ENDPOINTS.items()
    ]


def static_controls(shared: Sequence[float]) -> list[Control]:
    """Schedules that no image and no task has for itself (tab:ablation, tab:allocation-controls).

    Args:
        shared: shares of the shared static schedule, one for each pruning block.
    """
    found = [
        Control("shared_allocation", tuple(shared)),
        Control("uniform_allocation", (1.0,) * len(shared)),
    ]
    if len(shared) == len(EARLY_HEAVY):
        found += [Control("early_heavy", EARLY_HEAVY), Control("late_heavy", LATE_HEAVY)]
    return found


def mean_controls(means: Means, suffix: str = "") -> list[Control]:
    """Allocation, recovery or both replaced by the task's means (tab:ablation).

    Args:
        means: of the task.
        suffix: behind the names, where the means are of another split than usual.
    """
    found = [Control(f"mean_allocation{suffix}", means.shares)]
    if means.scales:
        found.append(Control(f"mean_recovery{suffix}", scale=means.scales))
    # Without recovery the mean of the allocation is both means; the paper prints the row for classification as well.
    found.append(Control(f"both_means{suffix}", means.shares, scale=means.scales or "learned"))
    return found
