"""`tab:memory`: peak memory of TAP beside no pruning."""

from __future__ import annotations

from tap.config.methods import DENSE
from tap.paper.evidence import Evidence
from tap.paper.reported import Column
from tap.paper.tables.caption import speeds_note
from tap.paper.tables.regimes import PEAK, REGIMES, change
from tap.paper.tables.table import Cells, Content, Head, Table, known

READS = "profiles"
PARTS = ("weights_gb", "activations_gb")
"""What a peak is made of, for the CSV alone."""


def cells(evidence: Evidence) -> Cells:
    """Peak memory of each task, and how it changes."""
    found: dict[tuple[str, str], Content | None] = {}
    for task in evidence.settings.tasks:
        found[task, "base_gb"] = base = evidence.speed(task, DENSE, PEAK)
        for method, letter in REGIMES.items():
            found[task, f"peak_gb_{letter}"] = peak = evidence.speed(task, method, PEAK)
            found[task, f"change_{letter}"] = change(peak, base)
            for part in PARTS:
                found[task, f"{part}_{letter}"] = evidence.speed(task, method, part)
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
    columns=tuple(Column(f"{part}_{letter}", f"{part} ({letter})", "GB") for part in PARTS for letter in "jf"),
    note=speeds_note,
)
