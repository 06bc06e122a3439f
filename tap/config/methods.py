"""Names of the methods and what follows from their declarations, known without importing torch.

What a method is stands in its own file of `tap/reducers`, where `tap.method_facts` reads it; the lists here are made of
that, so that a new method is one new file.
"""

from __future__ import annotations

from typing import Final

from tap.method_facts import Origin, read_methods
from tap.task_facts import TASKS

PRETRAINING: Final = "mae"
"""The run that makes a task's pre-trained backbone. A run like the others, but no row of a table."""

DENSE: Final = "dense"
"""No pruning: the reference of every comparison."""

TAP: Final = "tap"
"""The paper's method, with a backbone per task."""

TAP_F: Final = "tap_f"
"""The paper's method on a frozen base."""

WITH_REGISTER: Final = (TAP, TAP_F)
"""Methods with a register."""

MAIN: Final = "main"
"""The variant that the main tables show."""

RANDOM_ENCODER: Final = "random-encoder"
"""Variant of no pruning: only the head is trained, on a frozen encoder with random weights. A floor for dense tasks."""

METHODS: Final = read_methods()
"""What each method is, by name, in the order of the tables' rows."""

COMMON_RECOVERY: Final = tuple(name for name, facts in METHODS.items() if facts.method.readout == "common")
"""Methods without a readout of their own: a dense task gives them the common parameter-free recovery."""

FROZEN: Final = tuple(name for name, facts in METHODS.items() if facts.method.frozen)
"""Methods that one joint training makes for all tasks, on a frozen base."""

LEARNED_RECOVERY: Final = tuple(name for name, facts in METHODS.items() if facts.method.readout == "learned")
"""Methods with a recovery scale of their own."""

ORIGINS: Final[dict[str, Origin]] = {name: facts.row.origin for name, facts in METHODS.items() if facts.row.origin}
"""Public code behind methods; one that is this project's or the paper's own has none."""

SCORES: Final = {name: tuple(metric.name for metric in facts.metrics) for name, facts in TASKS.items()}
"""Names of the metrics that a task is judged by; the first decides where one number has to."""

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
    return tuple(name for name, facts in METHODS.items() if task in facts.tasks)
