"""`tab:matching-recovery`: stand-in rules crossed with recovery scales."""

from __future__ import annotations

from tap.controls.policies import ENDPOINTS, MATCHINGS
from tap.paper.evidence import Evidence
from tap.paper.tables import tab_matching_ablation
from tap.paper.tables.control_rows import controlled, row_of
from tap.paper.tables.table import Cells, Content, Head, Table, known

READS = "controls"
_TASKS = ("seg", "det")


def cells(evidence: Evidence) -> Cells:
    """Scores of every rule with every scale."""
    found: dict[tuple[str, str], Content | None] = {}
    for task, behind, results, metric in controlled(evidence, _TASKS):
        for rule in MATCHINGS:
            for endpoint in ENDPOINTS:
                value = results.value(f"matching_{rule}_{endpoint}", metric)
                found[f"{rule}{behind}", f"{task}_{endpoint}"] = value
    return known(found)


TABLE = Table(
    "Stand-in rules crossed with the stand-in alone (0), the learned scale (L) and the full offset (1), TAP-F,",
    (
        Head("Seg $0/L/1$", tuple(f"seg_{endpoint}" for endpoint in ENDPOINTS)),
        Head("Det $0/L/1$", tuple(f"det_{endpoint}" for endpoint in ENDPOINTS)),
    ),
    cells,
    note=tab_matching_ablation.note,
    row=row_of("tab:matching-recovery"),
)
