"""`tab:ownership`: which parts are trained per task and which are shared, as built models say, with their sizes."""

from __future__ import annotations

from typing import Final

from tap.paper.evidence import Evidence
from tap.paper.reported import Column
from tap.paper.tables.table import Cells, Head, Known, Table, recomputed, stated
from tap.paper.tables.task_parts import counts, counts_of_tap, joint_encoders, own_trunks, owners
from tap.task_facts import TASKS

READS = "settings"

_ROWS: Final = {
    "backbone": "backbone",
    "register": "register",
    "lora": "low_rank",
    "allocation": "allocation",
    "recovery": "recovery",
}
_DENSE: Final = "recovery"
"""The part that tasks without a dense head do not use."""


def cells(evidence: Evidence) -> Cells:
    """Who trains what in TAP-J, whose tasks share nothing, and in TAP-F; sizes of the first task that has the part."""
    cfg = evidence.settings
    own, joint = {task: counts_of_tap(cfg, task) for task in cfg.tasks}, joint_encoders(cfg)
    found: dict[tuple[str, str], Known] = {("head", "tap"): stated("trainable per task")}
    for row, part in _ROWS.items():
        sizes = {task: own[task][part] for task in own if part != _DENSE or TASKS[task].dense}
        if any(sizes.values()):
            words = {"allocation": "trained per model", "recovery": "trained for dense task"}
            found[row, "tap"] = recomputed(words.get(part, "trainable per task"))
            found[row, "tap_size"] = recomputed(_spread(sizes.values()))
        else:
            found[row, "tap"] = recomputed("none")
        if joint is None:
            continue
        sizes = {task: counts(joint, task)[part] for task in joint.tasks if part != _DENSE or TASKS[task].dense}
        owner = owners(joint, part)
        dense = part == _DENSE and owner.content == "shared"
        found[row, "tap_f"] = recomputed("shared by dense tasks") if dense else owner
        found[row, "tap_f_size"] = recomputed(_spread(sizes.values()))
    return found | ({} if joint is None else {("head", "tap_f"): stated("trainable per task")})


def _spread(sizes) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


TABLE = Table(
    "Ownership of the parts, as the built models have it, with parameters of a task's own encoder",
    (
        Head("TAP-J", ("tap",)),
        Head("parameters", ("tap_size",)),
        Head("TAP-F", ("tap_f",)),
        Head("parameters", ("tap_f_size",)),
    ),
    cells,
    columns=(Column("tap_size", "TAP-J parameters", "text"), Column("tap_f_size", "TAP-F parameters", "text")),
    note=own_trunks,
)
