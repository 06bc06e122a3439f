"""`tab:absolute-ablation`: the ablations as scores."""

from __future__ import annotations

from tap.paper.evidence import Evidence
from tap.paper.tables.ablation_rows import ablation_cells, ablation_note
from tap.paper.tables.control_rows import row_of
from tap.paper.tables.table import Cells, Head, Table
from tap.task_facts import TASKS

READS = "controls"


def cells(evidence: Evidence) -> Cells:
    """Scores, means over seeds."""
    return ablation_cells(evidence, changes=False)


TABLE = Table(
    "Ablations of selection, recovery, register and allocation at the main keep rate, TAP-F; scores,",
    tuple(Head(task.title(), (task,)) for task in TASKS),
    cells,
    note=ablation_note,
    row=row_of("tab:absolute-ablation"),
)
