"""`tab:spatial-statistics`: which regions of an image the patches that are kept cover."""

from __future__ import annotations

from typing import Final

from tap.config.methods import TAP_F
from tap.paper.evidence import Evidence
from tap.paper.reported import Row
from tap.paper.tables.table import Cells, Content, Head, Table, known

READS = "rates"

METHODS: Final = ("random", "attn_topk", "cropr", "tap", TAP_F)
"""Methods of the paper's table by its row keys, and TAP-F behind them."""

COLUMNS: Final = {
    "boundary": ("seg", "boundary_retention"),
    "class": ("seg", "class_coverage"),
    "box_interior": ("det", "box_interior_retention"),
    "small_object": ("det", "small_object_coverage"),
}
"""Task and metric of each of the paper's columns."""


def cells(evidence: Evidence) -> Cells:
    """Percent over the whole validation split, means over seeds."""
    found: dict[tuple[str, str], Content | None] = {
        (method, column): evidence.estimated(task, method, metric)
        for method in METHODS
        for column, (task, metric) in COLUMNS.items()
    }
    return known(found)


def note(evidence: Evidence) -> str:
    """The definitions, and which objects are small here."""
    tasks = evidence.settings.tasks
    small = f"{tasks['det'].eval.small_side:g}" if "det" in tasks else "32"
    return (
        "Boundary: patches with more than one labelled class. Class: classes that are the majority label of a kept "
        "patch, of those that are one of any patch, averaged over images. Box interior: patch centres in the union of "
        f"the boxes. Small object: objects below {small}^2 pixels with a kept patch centre in their box, of those with "
        "any; crowd regions are none. The CSV file has 95 % intervals over images, the figure's those of differences."
    )


TABLE = Table(
    "Spatial retention at the main keep rate, in percent of what the validation split has,",
    (
        Head("Boundary", ("boundary",)),
        Head("Class", ("class",)),
        Head("Box interior", ("box_interior",)),
        Head("Small object", ("small_object",)),
    ),
    cells,
    note=note,
    row=lambda key: Row(key, "TAP-F"),
)
