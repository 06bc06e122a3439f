"""`tab:parameters`: what TAP adds for pruning, counted from the built controller."""

from __future__ import annotations

from tap.core.register import Controller
from tap.paper.evidence import Evidence
from tap.paper.tables.table import Cells, Head, Known, Table, recomputed, stated

READS = "settings"

_PARTS = {"register": "registers.", "allocation": "allocation.", "recovery": "recovery."}


def cells(evidence: Evidence) -> Cells:
    """Counted at the scale's width. TAP-F's updates are not built yet, so not counted."""
    width = next(iter(evidence.settings.tasks.values())).model.width
    controller = Controller(width, tasks=["task"], recovery=True)
    count = {name: parameter.numel() for name, parameter in controller.named_parameters()}
    found: dict[tuple[str, str], Known] = {}
    for part, prefix in _PARTS.items():
        found[part, "tap"] = recomputed(sum(size for name, size in count.items() if name.startswith(prefix)))
    found["register", "tap_f"] = found["register", "tap"]
    found |= {("lora", "tap"): stated(0), ("total", "tap"): recomputed(sum(count.values()))}
    return {**found, ("allocation", "tap_f"): stated("shared"), ("recovery", "tap_f"): stated("shared")}


TABLE = Table(
    "Pruning-specific parameters, counted for the width in use",
    (Head("TAP-J", ("tap",)), Head("TAP-F per task", ("tap_f",))),
    cells,
)
