"""`tab:memory`: peak memory of TAP beside no pruning."""

from __future__ import annotations

from tap.config.methods import DENSE
from tap.paper.evidence import Evidence
from tap.paper.tables.regimes import PEAK, REGIMES, change
from tap.paper.tables.table import Cells, Content, Head, Table, known

READS = "rates"


def cells(evidence: Evidence) -> Cells:
    """Peak memory of each task, and how it changes."""
    found: dict[tuple[str, str], Content | None] = {}
    for task in evidence.settings.tasks:
        found[task, "base_gb"] = base = evidence.value(task, DENSE, PEAK)
        for method, letter in REGIMES.items():
            found[task, f"peak_gb_{letter}"] = peak = evidence.value(task, method, PEAK)
            found[task, f"change_{letter}"] = change(peak, base)
    return known(found)


TABLE = Table(
    "Peak full-model inference memory in GB at the main keep rate",
    (
        Head("Base", ("base_gb",)),
        Head("TAP-J", ("peak_gb_j",)),
        Head("TAP-F", ("peak_gb_f",)),
        Head(r"Change J/F (\%)", ("change_j", "change_f")),
    ),
    cells,
)
