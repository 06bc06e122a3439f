"""`tab:parameters`: what TAP adds for pruning, counted from built models."""

from __future__ import annotations

from tap.core.register import Controller
from tap.paper.evidence import Evidence
from tap.paper.tables.table import Cells, Head, Known, Table, recomputed, stated
from tap.paper.tables.task_parts import counts, joint_encoders, own_trunks

READS = "settings"

_PARTS = {"register": "registers.", "allocation": "allocation.", "recovery": "recovery."}


def cells(evidence: Evidence) -> Cells:
    """Counted at the scale's sizes; of TAP-F from its encoders. The shared readouts are charged to no task."""
    width = next(iter(evidence.settings.tasks.values())).model.width
    controller = Controller(width, tasks=["task"], recovery=True)
    count = {name: parameter.numel() for name, parameter in controller.named_parameters()}
    found: dict[tuple[str, str], Known] = {}
    for part, prefix in _PARTS.items():
        found[part, "tap"] = recomputed(sum(size for name, size in count.items() if name.startswith(prefix)))
    found |= {("lora", "tap"): stated(0), ("total", "tap"): recomputed(sum(count.values()))}
    found["register", "tap_f"] = found["register", "tap"]  # one vector of the width, in both
    joint = joint_encoders(evidence.settings)
    if joint is None:
        return found
    first = counts(joint, joint.tasks[0])
    found["lora", "tap_f"] = recomputed(first["low_rank"])
    found["total", "tap_f"] = recomputed(first["register"] + first["low_rank"])
    return {**found, ("allocation", "tap_f"): stated("shared"), ("recovery", "tap_f"): stated("shared")}


TABLE = Table(
    "Pruning-specific parameters, counted for the sizes in use",
    (Head("TAP-J", ("tap",)), Head("TAP-F per task", ("tap_f",))),
    cells,
    note=own_trunks,
)
