"""`tab:stability-memory`: spread over seeds and peak memory."""

from __future__ import annotations

from tap.paper.evidence import Evidence
from tap.paper.tables import tab_memory
from tap.paper.tables.regimes import REGIMES, deviation, first_part
from tap.paper.tables.table import Cells, Content, Head, Table, known
from tap.task_facts import TASKS

READS = "rates"


def cells(evidence: Evidence) -> Cells:
    """Scores with their spread, and what the table of memory has."""
    found: dict[tuple[str, str], Content | None] = {}
    for task in evidence.settings.tasks:
        for method, letter in REGIMES.items():
            found[task, f"score_{letter}"] = score = evidence.value(task, method, TASKS[task].score.name)
            found[task, f"sd_{letter}"] = deviation(score)
    return {**known(found), **tab_memory.cells(evidence)}


TABLE = Table(
    "Variation between runs and peak inference memory at the main keep rate, TAP-J/TAP-F,",
    (
        Head("Score", ("score_j", "score_f")),
        Head("Std.", ("sd_j", "sd_f")),
        Head("Base", ("base_gb",)),
        Head("Peak GB", ("peak_gb_j", "peak_gb_f")),
        Head(r"$\Delta$ (\%)", ("change_j", "change_f")),
    ),
    cells,
    task_of=first_part,
)
