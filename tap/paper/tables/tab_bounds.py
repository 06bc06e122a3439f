"""`tab:bounds`: operations of every method, the speed-up that they allow, and how much of it is reached."""

from __future__ import annotations

from tap.config.methods import METHODS
from tap.paper.evidence import Evidence
from tap.paper.reported import Column, Row
from tap.paper.tables.caption import speeds_note
from tap.paper.tables.table import Cells, Content, Head, Table, known, stated

READS = "profiles"
TRAINED_SPLIT = "tap:trained_split"


def cells(evidence: Evidence) -> Cells:
    """Operations as torch counts them, bound, speed-up and its share of the bound, of all that was profiled."""
    found: dict[tuple[str, str], Content | None] = {}
    for task in evidence.settings.tasks:
        profile = evidence.profile(task, evidence.profiled_shapes)
        for subject in () if profile is None else profile.content["methods"]:
            assert profile is not None
            row = f"{task}_{subject}"
            found[row, "task"] = stated(task)
            for column, metric in _METRICS.items():
                found[row, column] = profile.value(subject, metric)
            share = profile.content["methods"][subject]["of_bound"]
            found[row, "of_bound"] = profile.of(100 * share)
    return known(found)


_METRICS = {"gflops": "gflops_per_image", "bound": "bound", "speedup": "encoder_speedup"}


def row(key: str) -> Row:
    """A method, its keep rate where that is not the main one, and whose split it has where that is not the printed."""
    method, at, rate = key.partition("_")[2].partition("@")
    if method == TRAINED_SPLIT:
        return Row(key, f"{METHODS['tap'].row.title}, split of the trained checkpoint")
    title = METHODS[method].row.title
    return Row(key, f"{title} at {rate}" if at else title)


def note(evidence: Evidence) -> str:
    """What is counted, and where it was timed."""
    return (
        "Operations of the encoder's matrix products per image, two for each multiply-accumulate; the bound is how "
        f"many times fewer a method has than no pruning. {speeds_note(evidence)}"
    )


TABLE = Table(
    "Operations and the share of the speed-up that they allow which every method reaches",
    (
        Head("Task", ("task",)),
        Head("GFLOPs", ("gflops",)),
        Head("Bound", ("bound",)),
        Head("Speed-up", ("speedup",)),
        Head(r"of the bound (\%)", ("of_bound",)),
    ),
    cells,
    words=("task",),
    columns=(
        Column("task", "Task", "text"),
        Column("gflops", "GFLOPs", "GFLOPs"),
        Column("bound", "Bound", "ratio"),
        Column("speedup", "Speed-up", "ratio"),
        Column("of_bound", "Of the bound", "percent"),
    ),
    row=row,
    note=note,
)
