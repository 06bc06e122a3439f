"""The growth of time and memory on a machine, as its table and its figure read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tap.paper.profiles import Profile

MATTERS: Final = 5.0
"""Percent of a pass from which matching is said to matter."""


def points(profile: Profile | None) -> dict[str, Mapping[str, Any]]:
    """The sizes that were measured, by ``axis:value``; none without a profile."""
    if profile is None:
        return {}
    return {f"{point['axis']}:{point[column_of(point['axis'])]:g}": point for point in profile.content["points"]}


def column_of(axis: str) -> str:
    """What a point calls the size that grows along an axis."""
    return "rate" if axis == "keep rate" else axis


def matters_from(profile: Profile) -> int | None:
    """The fewest patches of a single image of which matching takes a share of a pass that matters; None if it never
    does."""
    found = [
        int(point["patches"])
        for point in profile.content["points"]
        if point["axis"] == "patches" and point.get("matching_percent", 0.0) >= MATTERS
    ]
    return min(found, default=None)
