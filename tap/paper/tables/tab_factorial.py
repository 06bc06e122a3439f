"""`tab:factorial`: register by low-rank updates, each a task's own or one for all tasks (TAP-F)."""

from __future__ import annotations

from tap.config.methods import TAP_F
from tap.config.options.tap_f import TapFOptions
from tap.config.variants import changes_of
from tap.paper.evidence import Evidence
from tap.paper.tables.table import Cells, Content, Head, Table, known, stated
from tap.paper.tables.task_columns import task_columns
from tap.task_facts import TASKS

READS = "rates"

ROWS = {
    "own_own": "main",
    "shared_own": "shared_register",
    "own_shared": "own_shared",
    "shared_shared": "shared_shared",
}
"""Variant of TAP-F behind each of the paper's rows."""

_WORDS = {"own": "task-specific", "shared": "shared"}


def cells(evidence: Evidence) -> Cells:
    """Scores of the four models, and what each shares by the settings of its variant."""
    found: dict[tuple[str, str], Content | None] = {}
    for row, variant in ROWS.items():
        changes = {name.rpartition(".")[2]: value for name, value in changes_of(variant).items()}
        options = TapFOptions(**changes)
        found |= {(row, "register"): stated(_WORDS[options.register_of])}
        found |= {(row, "adapter"): stated(_WORDS[options.adapters_of])}
        for task in evidence.settings.tasks:
            found[row, task] = evidence.value(task, f"{TAP_F}:{variant}", TASKS[task].score.name)
    return known(found)


TABLE = Table(
    "Register by adapter in TAP-F at the main keep rate, each a task's own or shared by all tasks; scores",
    (
        Head("Register", ("register",)),
        Head("Adapter", ("adapter",)),
        *(Head(task.title(), (task,)) for task in TASKS),
    ),
    cells,
    columns=task_columns(tuple(TASKS)),
    words=("register", "adapter"),
    first=None,
)
