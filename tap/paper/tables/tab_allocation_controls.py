"""`tab:allocation-controls`: the learned allocation, the oracle's mean and fixed schedules."""

from __future__ import annotations

from tap.paper.evidence import Evidence
from tap.paper.tables.control_rows import LAYERS, controlled, identity, row_of
from tap.paper.tables.table import Cells, Content, Head, Table, known
from tap.paper.tables.task_columns import task_columns
from tap.paper.units import points_of
from tap.task_facts import DENSE_TASKS, TASKS

READS = "controls"
_CONTROLS = {
    "learned": "full",
    "task_mean": "mean_allocation",
    "task_mean_validation": "mean_allocation_validation",
    "oracle": "oracle",
    "shared_static": "shared_allocation",
    "uniform": "uniform_allocation",
    "early_heavy": "early_heavy",
    "late_heavy": "late_heavy",
}
"""Control of each row."""


def cells(evidence: Evidence) -> Cells:
    """Realised splits and scores."""
    found: dict[tuple[str, str], Content | None] = {}
    for task, behind, results, metric in controlled(evidence, DENSE_TASKS):
        for row, control in _CONTROLS.items():
            found[f"{row}{behind}", task] = results.value(control, metric)
            for place, layer in enumerate(LAYERS):
                found[f"{row}{behind}", f"{task}_share_{layer}"] = results.share(control, metric, place)
    return known(found)


def note(evidence: Evidence) -> str:
    """Whose means these are and what that changes, what the oracle has tried, and the identity."""
    changes, searches = [], []
    for task, behind, results, metric in controlled(evidence, DENSE_TASKS):
        who = f"{task} TAP-{'J' if behind else 'F'}"
        change = results.difference(_CONTROLS["task_mean_validation"], _CONTROLS["task_mean"], metric)
        if change is not None:
            bounds = change.interval
            between = "" if bounds is None else f", 95 % interval {bounds.low:+.2f} to {bounds.high:+.2f}"
            changes.append(f"{change.mean:+.2f} {points_of(TASKS[task].score)} ({who}{between})")
        if (search := results.search) is not None:
            tried = f"{search.splits} splits on {search.images} calibration images"
            searches.append(f"{tried}, {100 * search.saving:.0f} % of the blocks saved by sharing ({who})")
    said = [
        "Task means are those of the calibration split; the row called so has the validation images', as the paper "
        f"takes them{', which changes the score by ' + ', '.join(changes) if changes else ''}.",
        f"The oracle tried {'; '.join(searches)}." if searches else "",
        "Splits are those that were realised in whole patches.",
        identity(evidence, DENSE_TASKS),
    ]
    return " ".join(filter(None, said))


TABLE = Table(
    "Allocation policies at the main keep rate, TAP-F; splits in percent of the removal budget at blocks 3, 6 and 9;",
    tuple(
        head
        for task in DENSE_TASKS
        for head in (
            Head(f"{task.title()} split", tuple(f"{task}_share_{layer}" for layer in LAYERS)),
            Head(task.title(), (task,)),
        )
    ),
    cells,
    columns=(
        *(column for layer in LAYERS for column in task_columns(DENSE_TASKS, f"share_{layer}", "share in %")),
        *task_columns(DENSE_TASKS),
    ),
    note=note,
    row=row_of("tab:allocation-controls", {"task_mean_validation": "Task-mean static (validation)"}),
)
