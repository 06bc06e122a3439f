"""`tab:ablation`: what each of the register's decisions is worth, as changes from TAP-F."""

from __future__ import annotations

from tap.paper.evidence import Evidence
from tap.paper.tables.ablation_rows import ablation_cells, ablation_note
from tap.paper.tables.control_rows import row_of
from tap.paper.tables.table import Cells, Head, Table
from tap.task_facts import TASKS

READS = "controls"


def cells(evidence: Evidence) -> Cells:
    """Changes from the full model in points, with paired intervals."""
    return ablation_cells(evidence, changes=True)


TABLE = Table(
    "Ablations of selection, recovery, register and allocation at the main keep rate, TAP-F; changes from the full "
    "model in points,",
    tuple(Head(task.title(), (task,)) for task in TASKS),
    cells,
    note=ablation_note,
    row=row_of("tab:ablation"),
)
