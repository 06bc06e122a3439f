"""`tab:criterion-summary`: mean drops of every criterion, and its rank on the dense tasks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from tap.paper.evidence import Evidence
from tap.paper.measured import Value
from tap.paper.probe_results import correlation, ranks
from tap.paper.tables.protocol import protocol
from tap.paper.tables.table import BEHIND, Cells, Content, Head, Table
from tap.paper.tables.task_columns import task_columns
from tap.paper.tidy_probes import LAYERS
from tap.paper.units import losses
from tap.task_facts import DENSE_TASKS, TASKS

READS = "probes"

_NO_CORRELATION = "The dense rankings have no correlation: fewer than two criteria in common, or all drops equal."


def cells(evidence: Evidence) -> Cells:
    """Mean drops, and for the dense tasks their ranks, from 1 for the smallest drop; ties share a rank."""
    found: dict[tuple[str, str], Content] = {}
    for task in TASKS:
        probe = evidence.probe(task, LAYERS)
        if probe is None:
            continue
        drops = probe.mean_drops(TASKS[task].score.name)
        runs = (probe.id, *probe.runs)
        for name, drop in drops.items():
            by_seed = tuple(map(float, drop.by_seed))
            found[name, task] = Value(drop.value, None, probe.seeds, runs, drop.interval, by_seed)
        if TASKS[task].dense:
            for name, rank in ranks(drops).items():
                found[name, f"{task}_rank"] = Value(rank.value, None, probe.seeds, runs, rank.interval)
    return found


def note(evidence: Evidence) -> str:
    """What the summary's caption says of the probes and of the correlation between the dense tasks."""
    probes = [probe for task in TASKS if (probe := evidence.probe(task, LAYERS)) is not None]
    parts = [f"{protocol(probe)}{evidence.caveat(probe.task)}" for probe in probes]
    drops = [probe.mean_drops(TASKS[probe.task].score.name) for probe in probes]
    if any(drop.value < 0 for part in drops for drop in part.values()):
        parts.append("A negative drop is a gain over no pruning.")
    dense = [(probe.task, part) for probe, part in zip(probes, drops, strict=True) if TASKS[probe.task].dense]
    which = "the two dense rankings" if len(dense) == 2 else "the rankings of {} and {}"
    for (one, first), (other, second) in combinations(dense, 2):
        names = [name for name in first if name in second]
        estimate, bounds = correlation(*([part[name] for name in names] for part in (first, second)))
        known = "" if bounds is None else f" (95 % interval {bounds.low:+.2f} to {bounds.high:+.2f})"
        found = f"Spearman correlation of {which.format(one, other)}: {estimate:+.2f}{known}."
        parts.append(_NO_CORRELATION if np.isnan(estimate) else found)
    return " ".join(parts)


def _heads() -> Iterator[Head]:
    for task, facts in TASKS.items():
        behind = (f"{task}_rank",) if facts.dense else ()
        yield Head(f"{task.title()} (rank)" if behind else task.title(), (task, *behind), BEHIND)


TABLE = Table(
    f"Mean single-block drops {losses()}, lower is better, with ranks from 1 for the best,",
    tuple(_heads()),
    cells,
    note=note,
    columns=(*task_columns(tuple(TASKS), unit="points lost"), *task_columns(DENSE_TASKS, "rank", "rank")),
)
