"""`tab:matching-recovery`: stand-in rules crossed with recovery scales."""

from __future__ import annotations

from tap.controls.policies import ENDPOINTS, MATCHINGS
from tap.paper.evidence import Evidence
from tap.paper.tables import tab_matching_ablation
from tap.paper.tables.control_rows import controlled, row_of
from tap.paper.tables.table import Cells, Content, Head, Table, known
from tap.paper.tables.task_columns import task_columns
from tap.task_facts import DENSE_TASKS

READS = "controls"


def cells(evidence: Evidence) -> Cells:
    """Scores of every rule with every scale."""
    found: dict[tuple[str, str], Content | None] = {}
    for task, behind, results, metric in controlled(evidence, DENSE_TASKS):
        for rule in MATCHINGS:
            for endpoint in ENDPOINTS:
                value = results.value(f"matching_{rule}_{endpoint}", metric)
                found[f"{rule}{behind}", f"{task}_{endpoint}"] = value
    return known(found)


TABLE = Table(
    "Stand-in rules crossed with the stand-in alone (0), the learned scale (L) and the full offset (1), TAP-F,",
    tuple(
        Head(f"{task.title()} $0/L/1$", tuple(f"{task}_{endpoint}" for endpoint in ENDPOINTS)) for task in DENSE_TASKS
    ),
    cells,
    columns=tuple(column for endpoint in ENDPOINTS for column in task_columns(DENSE_TASKS, endpoint)),
    note=tab_matching_ablation.note,
    row=row_of("tab:matching-recovery"),
)
