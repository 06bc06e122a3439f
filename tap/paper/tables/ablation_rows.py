"""What the two tables of the ablations share: which of their rows are trained, which evaluated, and with what held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tap.config.methods import TAP_F
from tap.paper.evidence import Evidence
from tap.paper.reported import load_reported
from tap.paper.tables.control_rows import controlled, identity
from tap.paper.tables.table import Cells, Content, known, stated
from tap.task_facts import TASKS

TRAINED: Final = ("attention_selection", "static_query", "shared_register")
"""Rows that are trainings of their own: variants of TAP-F."""

SAME_SETS: Final = ("full", "zero_fill", "alpha_1", "alpha_0", "mean_recovery")
"""Rows that share selected sets, allocation and pointers with the full model."""

_OF_RECOVERY: Final = ("zero_fill", "alpha_1", "alpha_0", "mean_recovery")


def ablation_cells(evidence: Evidence, changes: bool) -> Cells:
    """Scores of every variant on every task, or their changes from the full model on the same images.

    Args:
        evidence: the results.
        changes: give the changes.
    """
    found: dict[tuple[str, str], Content | None] = {}
    for task in evidence.settings.tasks:
        metric = TASKS[task].score.name
        for row in TRAINED:
            selector = f"{TAP_F}:{row}"
            change = evidence.difference(task, selector, TAP_F, metric)
            found[row, task] = change if changes else evidence.value(task, selector, metric)
    for task, behind, results, metric in controlled(evidence, tuple(evidence.settings.tasks)):
        if not TASKS[task].dense:
            found |= {(f"{row}{behind}", task): stated("n/a") for row in _OF_RECOVERY}
        for row in _evaluated(task):
            change = results.difference(row, "full", metric)
            found[f"{row}{behind}", task] = change if changes else results.value(row, metric)
    return known(found)


def ablation_note(evidence: Evidence) -> str:
    """What each row is, the hash of what the recovery rows hold fixed, and the identity of the budget."""
    tasks = tuple(evidence.settings.tasks)
    parts = []
    for task, behind, results, _ in controlled(evidence, tasks):
        if TASKS[task].dense:
            hashes = results.digests(list(SAME_SETS))
            same = f"one hash, {min(hashes)[:12]}" if len(hashes) == 1 else f"{len(hashes)} hashes, which must be one"
            parts.append(f"{task} TAP-{'J' if behind else 'F'}: {same}")
    held = (
        f" Selected sets and allocations of the full model and of the rows that change its recovery have "
        f"{'; '.join(parts)}; their pointers are the same records."
        if parts
        else ""
    )
    return (
        "Attention selection, static query and shared register are trained; all other rows evaluate the full model's "
        f"checkpoint, on the images of the controls. Task means are the calibration split's.{held} "
        f"{identity(evidence, tasks)}"
    )


def _evaluated(task: str) -> Iterator[str]:
    for row in load_reported("tab:ablation").rows:
        if row.key not in TRAINED and (TASKS[task].dense or row.key not in _OF_RECOVERY):
            yield row.key
