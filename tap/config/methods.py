"""Names of the methods, in the order of the paper's tables, with the tasks whose table has a row of each.

Kept apart from `tap.reducers`, which implements them, so that a configuration is checked without importing torch.
"""

from __future__ import annotations

from typing import Final

PRETRAINING: Final = "mae"
"""The run that makes a task's pre-trained backbone. A run like the others, but no row of a table."""

DENSE: Final = "dense"
"""No pruning: the reference of every comparison."""

TAP: Final = "tap"
"""The paper's method, which alone is measured at several keep rates."""

MAIN: Final = "main"
"""The variant that the main tables show."""

RANDOM_ENCODER: Final = "random-encoder"
"""Variant of no pruning: only the head is trained, on a frozen encoder with random weights. A floor for dense tasks."""

METHODS: Final[dict[str, tuple[str, ...]]] = {
    DENSE: ("cls", "seg", "det"),
    "random": ("cls", "seg", "det"),
    "attn_topk": ("cls", "seg", "det"),
    "evit": ("cls",),
    "dynamicvit": ("cls",),
    "evovit": ("cls",),
    "ats": ("cls",),
    "tome": ("cls", "seg"),
    "diffrate": ("cls", "seg"),
    "algm": ("seg",),
    "dtop": ("seg",),
    "svit": ("det",),
    "cropr": ("cls", "seg", "det"),
    "static": ("cls", "seg", "det"),
    TAP: ("cls", "seg", "det"),
}

SCORES: Final[dict[str, tuple[str, ...]]] = {"cls": ("top1",), "seg": ("miou",), "det": ("box_ap", "mask_ap")}
"""The metrics that a task is judged by, in percent; the first decides where one number has to."""

CRITERIA: Final = (
    "random",
    "attention_mean",
    "attention_max",
    "token_l1",
    "token_l2",
    "key_l2",
    "coverage",
    "token_kcenter",
    "key_kcenter",
    "token_redundancy",
    "key_redundancy",
)
"""The criteria of the controlled probes, in the order of the paper's table."""


def methods_of(task: str) -> tuple[str, ...]:
    """Names of the methods that `task`'s table has a row of."""
    return tuple(name for name, tasks in METHODS.items() if task in tasks)
