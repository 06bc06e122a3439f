"""What tables of controls share: the paper's rows are TAP-F's; those of TAP-J stand behind them, marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tap.config.methods import TAP, TAP_F
from tap.paper.control_results import ControlResults
from tap.paper.evidence import Evidence
from tap.paper.reported import Row, load_reported
from tap.task_facts import TASKS

LAYERS: Final = (3, 6, 9)
"""Pruning blocks of the paper's tables, in their places."""

BEHIND: Final = {TAP_F: "", TAP: "@j"}
"""End of the key of a method's rows."""


def controlled(evidence: Evidence, tasks: tuple[str, ...]) -> Iterator[tuple[str, str, ControlResults, str]]:
    """Task, end of the rows' keys, controls and score of every task and method that was controlled."""
    for task in tasks:
        for method, behind in BEHIND.items():
            found = evidence.controls(task, method)
            if found is not None:
                yield task, behind, found, TASKS[task].score.name


def row_of(label: str, further: dict[str, str] | None = None) -> Callable[[str], Row]:
    """How a table names the rows that the paper does not have: as its own, with TAP-J behind them.

    Args:
        label: of the paper's table.
        further: names of rows by key that no row of the paper has.
    """

    def row(key: str) -> Row:
        own, _, behind = key.partition("@")
        names = {row.key: row.label for row in load_reported(label).rows} | (further or {})
        return Row(key, names[own] + (", TAP-J" if behind else ""))

    return row


def identity(evidence: Evidence, tasks: tuple[str, ...]) -> str:
    """A sentence on the allocation identity, counted over all rows."""
    counted = [
        f"{found.identity} ({task} TAP-{'J' if behind else 'F'})"
        for task, behind, found, _ in controlled(evidence, tasks)
    ]
    if not counted:
        return "No checkpoint was controlled."
    return f"Passes of the encoder, over all controls, whose removals sum to N - K: {', '.join(counted)}."
