"""`tab:verified-main`: TAP's operating points at the main keep rate."""

from __future__ import annotations

from tap.config.methods import DENSE
from tap.paper.evidence import Evidence
from tap.paper.tables.regimes import ENCODER, FULL, FULL_TOO, REGIMES, SPEEDUP, first_part
from tap.paper.tables.table import Cells, Content, Head, Table, known
from tap.task_facts import TASKS

READS = "rates"


def cells(evidence: Evidence) -> Cells:
    """Score, change from no pruning and throughput."""
    found: dict[tuple[str, str], Content | None] = {}
    for task in evidence.settings.tasks:
        measured, score = evidence.measured(task), TASKS[task].score.name
        for method in REGIMES:
            row = f"{task}_{method}"
            found[row, "score"] = measured.value(method, score)
            found[row, "score_delta"] = measured.difference(method, score, DENSE)
            metrics = (ENCODER, SPEEDUP, *([FULL] if task in FULL_TOO else []))
            found |= {(row, metric): measured.value(method, metric) for metric in metrics}
    return known(found)


TABLE = Table(
    "TAP at the main keep rate, with changes from no pruning and ratios to the dense encoder of the same process,",
    (
        Head("Score", ("score",)),
        Head(r"$\Delta$", ("score_delta",)),
        Head("Enc. im/s", (ENCODER,)),
        Head("Speedup", (SPEEDUP,)),
    ),
    cells,
    task_of=first_part,
)
