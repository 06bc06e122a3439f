"""`tab:training-ablation`: what trains the selection of TAP-F, and whether the count of patches comes out exact."""

from __future__ import annotations

import math

from tap.config.methods import TAP_F
from tap.config.variants import VARIANTS
from tap.core.budget import keep_count
from tap.paper.evidence import Evidence
from tap.paper.measured import Value
from tap.paper.reported import Row, load_reported
from tap.paper.tables import tab_factorial
from tap.paper.tables.control_rows import BEHIND
from tap.paper.tables.table import Cells, Content, Head, Table, known, recomputed
from tap.paper.tables.task_columns import task_columns
from tap.task_facts import TASKS

READS = "rates"

ROWS = {
    "constrained": "main",
    "no_gumbel": "no_gumbel",
    "fixed_tau": "fixed_tau",
    "independent": "independent",
    "hard_only": "hard_only",
}
"""Variant of TAP-F behind each of the paper's rows."""

_OTHERS = {*ROWS.values(), *tab_factorial.ROWS.values()} | {row.key for row in load_reported("tab:ablation").rows}
"""Variants that are rows of the paper's tables."""


def cells(evidence: Evidence) -> Cells:
    """Scores, and the final count as a multiple of K: mean and spread over images, averaged over tasks and seeds."""
    found: dict[tuple[str, str], Content | None] = {}
    rows = {row: f"{TAP_F}:{variant}" for row, variant in ROWS.items()}
    for variant in (name for name in VARIANTS if name not in _OTHERS):
        rows |= {f"{variant}{behind}": f"{method}:{variant}" for method, behind in BEHIND.items()}
    for row, selector in rows.items():
        for task in evidence.settings.tasks:
            found[row, task] = evidence.value(task, selector, TASKS[task].score.name)
        count = _share_of_k(evidence, selector, "final_tokens_mean")
        spread = _share_of_k(evidence, selector, "final_tokens_sd")
        found |= {(row, "count"): count, (row, "count_sd"): spread}
        if count is not None and spread is not None:
            found[row, "exact"] = recomputed("yes" if count.mean == 1.0 and spread.mean == 0.0 else "no")
    return known(found)


def row(key: str) -> Row:
    """A variant that no table of the paper has, in its own words."""
    name, _, behind = key.partition("@")
    about = VARIANTS[name].about
    return Row(key, f"{about[0].upper()}{about[1:]}" + (", TAP-J" if behind else ""))


def _share_of_k(evidence: Evidence, selector: str, metric: str) -> Value | None:
    """A number of patches over the exact one, averaged over the tasks that were measured."""
    shares: list[float] = []
    seeds: set[int] = set()
    runs: list[str] = []
    for task in evidence.settings.tasks:
        value, patches = (evidence.value(task, selector, name) for name in (metric, "patches"))
        if value is not None and patches is not None:
            shares.append(value.mean / keep_count(round(patches.mean), evidence.settings.main_rate))
            seeds |= set(value.seeds)
            runs += value.runs
    return Value(math.fsum(shares) / len(shares), None, tuple(sorted(seeds)), tuple(runs)) if shares else None


TABLE = Table(
    "Estimators that train the selection of TAP-F at the main keep rate: scores, and the number of patches that reach "
    "the last block as a multiple of K with its spread over images, averaged over the tasks,",
    (
        *(Head(task.title(), (task,)) for task in TASKS),
        Head("Count / K", ("count", "count_sd"), r"$\pm$", form=lambda row, value: f"{value:.3f}"),
        Head("Exact", ("exact",)),
    ),
    cells,
    columns=task_columns(tuple(TASKS)),
    row=row,
)
