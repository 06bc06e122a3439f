"""`tab:register-decides`: whether a register ranks otherwise than others do (a table of this project)."""

from __future__ import annotations

from tap.config.methods import TAP, TAP_F, WITH_REGISTER
from tap.paper.evidence import Evidence
from tap.paper.learned import LEARNED_BELOW, unlearned
from tap.paper.measured import Value
from tap.paper.reported import Column, Row
from tap.paper.tables.table import BEHIND, Cells, Content, Head, Table, known, recomputed
from tap.task_facts import TASKS

READS = "rates"

_NAMES = {TAP: "TAP-J", TAP_F: "TAP-F"}
_OTHERS = {"fresh": "Fresh registers", "other": "Other tasks' registers", "attention": "Attention"}


def cells(evidence: Evidence) -> Cells:
    """Every method, rate and variant with a register on every task, means over seeds."""
    found: dict[tuple[str, str], Content | None] = {}
    for task in evidence.settings.tasks:
        for method in WITH_REGISTER:
            for selector in evidence.measured(task).selectors(method):
                row, runs = f"{task} {selector}", evidence.per_seed(task, selector, "register_distance")
                for key, metric in _METRICS.items():
                    found[row, key] = evidence.value(task, selector, metric)
                found[row, "share_sd"] = _largest(evidence, task, selector, "removal_share_")
                found[row, "scale_sd"] = _largest(evidence, task, selector, "recovery_scale_")
                if runs:
                    without = len(unlearned(evidence, runs))
                    found[row, "learned"] = recomputed("yes" if not without else f"no ({without} of {len(runs)})")
    return known(found)


def _largest(evidence: Evidence, task: str, selector: str, start: str) -> Value | None:
    """The largest SD over images of any pruning block."""
    blocks = evidence.settings.tasks[task].model.depth if task in evidence.settings.tasks else 0  # type: ignore[index]
    values = [evidence.value(task, selector, f"{start}{block}_sd") for block in range(1, blocks + 1)]
    return max((value for value in values if value is not None), key=lambda value: value.mean, default=None)


def row(key: str) -> Row:
    """Task, method, variant and rate."""
    task, _, selector = key.partition(" ")
    name, _, rate = selector.partition("@")
    method, _, variant = name.partition(":")
    words = "" if variant == "main" else f", {variant.replace('_', ' ')}"
    return Row(key, f"{TASKS[task].title}, {_NAMES[method]} at {float(rate):g}{words}")


def note(evidence: Evidence) -> str:
    """What was compared, and the mark."""
    return (
        "Spearman correlation of the register's ranking with others' over the patches that both rank at a pruning "
        "block, and in parentheses the share of kept patches that both keep; means over blocks, images and eight "
        "fresh registers in its place, the registers of the other tasks in its place, or incoming attention at the "
        "same states. SD over images: the largest of all blocks, of removal shares in points and of recovery scales. "
        f"A register whose correlation with fresh ones is above {LEARNED_BELOW:g}, or that has not moved, has not "
        "learned."
    )


def _correlation(row: str, number: float) -> str:
    return f"{number:.3f}"


_METRICS = {
    **{f"{name}_{what}": f"register_{name}_{what}" for name in _OTHERS for what in ("correlation", "overlap")},
    "cosine": "register_cosine",
    "distance": "register_distance",
}

TABLE = Table(
    "Whether the register decides: its ranking beside others', and its distance from where it started,",
    (
        *(
            Head(title, (f"{name}_correlation", f"{name}_overlap"), BEHIND, form=_correlation)
            for name, title in _OTHERS.items()
        ),
        Head("SD of shares", ("share_sd",), form=_correlation),
        Head("SD of scales", ("scale_sd",), form=_correlation),
        Head("Cosine with start", ("cosine",), form=_correlation),
        Head("Distance from start", ("distance",), form=_correlation),
        Head("Learned", ("learned",)),
    ),
    cells,
    columns=(
        *(
            Column(f"{name}_{what}", f"{title}, {what}", "share")
            for name, title in _OTHERS.items()
            for what in ("correlation", "overlap")
        ),
        Column("share_sd", "Largest SD of shares over images", "points"),
        Column("scale_sd", "Largest SD of scales over images", "share"),
        Column("cosine", "Cosine with the start", "share"),
        Column("distance", "Distance from the start over its length", "share"),
        Column("learned", "Learned", "text"),
    ),
    note=note,
    row=row,
)
