"""`tab:choice`: whether patches that a ranking keeps are those whose loss costs most (a table of this project)."""

from __future__ import annotations

from typing import Final

from tap.config.methods import TAP, TAP_F
from tap.paper.evidence import Evidence
from tap.paper.reported import Column, Row
from tap.paper.tables.control_rows import controlled
from tap.paper.tables.table import Cells, Content, Head, Table, known
from tap.task_facts import TASKS

READS = "controls"

RANKINGS: Final = {
    "register": "Register",
    "attention": "Attention",
    "random": "Random",
    "gradient": "Gradient of the mask",
}
_NAMES: Final = {"": TAP_F, "@j": TAP}
_TITLES: Final = {TAP_F: "TAP-F", TAP: "TAP-J"}


def cells(evidence: Evidence) -> Cells:
    """Spearman correlation of each ranking with the losses, a mean over images with its interval."""
    found: dict[tuple[str, str], Content | None] = {}
    for task, behind, results, _ in controlled(evidence, tuple(evidence.settings.tasks)):
        for name in RANKINGS:
            found[f"{task} {_NAMES[behind]}", name] = results.agreement(name)
    return known(found)


def row(key: str) -> Row:
    """Task and method."""
    task, _, method = key.partition(" ")
    return Row(key, f"{TASKS[task].title}, {_TITLES[method]}")


def note(evidence: Evidence) -> str:
    """What was left out, and how to read the numbers."""
    images = {
        task: evidence.settings.tasks[task].controls.choice_side ** 2  # type: ignore[index]
        for task in evidence.settings.tasks
    }
    groups = ", ".join(f"{count} in {task}" for task, count in images.items())
    return (
        "Each of several equal fields of patches is removed in turn at the first pruning block of the checkpoint, all "
        f"else staying ({groups}); its worth is what the task's loss gains. Shown is Spearman's correlation of worth "
        "and ranking over the fields of an image, averaged over images and seeds: 1 keeps what is worth most, 0 is "
        "chance. The gradient is that of the straight-through mask to the same scores, at its first temperature, "
        "without noise: what training follows. The CSV file has 95 % intervals over images, or over places where "
        "several are views of one."
    )


def _correlation(row: str, number: float) -> str:
    return f"{number:.2f}"


TABLE = Table(
    "Whether the choice is good: correlation of rankings with leave-one-out losses at the main keep rate,",
    tuple(Head(title, (name,), form=_correlation) for name, title in RANKINGS.items()),
    cells,
    columns=tuple(Column(name, title, "correlation") for name, title in RANKINGS.items()),
    note=note,
    row=row,
)
