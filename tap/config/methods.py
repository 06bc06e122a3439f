"""Names of the methods, in the order of the paper's tables, with the tasks whose table has a row of each.

Kept apart from `tap.reducers`, which implements them, so that a configuration is checked without importing torch.
"""

from __future__ import annotations

from typing import Final

PRETRAINING: Final = "mae"
"""The run that makes a task's pre-trained backbone. A run like the others, but no row of a table."""

DENSE: Final = "dense"
"""No pruning: the reference of every comparison, and where the methods start at desk scale."""

TAP: Final = "tap"
"""The paper's method, which alone is measured at several keep rates."""

MAIN: Final = "main"
"""The variant that the main tables show."""

RANDOM_ENCODER: Final = "random-encoder"
"""Variant of no pruning: only the head is trained, on a frozen encoder with random weights. A floor for dense tasks."""

VARIANTS: Final = (MAIN, RANDOM_ENCODER)


def methods_of(task: str) -> tuple[str, ...]:
    """Names of the methods that `task`'s table has a row of."""
    return tuple(name for name, tasks in METHODS.items() if task in tasks)
