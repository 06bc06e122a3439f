"""`tab:criterion-summary`: mean drops of every criterion, and its rank on the dense tasks."""

from __future__ import annotations

import numpy as np

from tap.paper.evidence import Evidence
from tap.paper.measured import Value
from tap.paper.probe_results import correlation, ranks
from tap.paper.tables.protocol import protocol
from tap.paper.tables.table import BEHIND, Cells, Content, Head, Table
from tap.paper.tidy_probes import LAYERS
from tap.task_facts import TASKS

READS = "probes"

_DENSE_TASKS = ("seg", "det")
"""Tasks whose rankings the paper compares."""

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
            found[name, task] = Value(drop.value, None, probe.seeds, runs, drop.interval)
        if task in _DENSE_TASKS:
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
    dense = [part for probe, part in zip(probes, drops, strict=True) if probe.task in _DENSE_TASKS]
    if len(dense) == 2:
        names = [name for name in dense[0] if name in dense[1]]
        estimate, bounds = correlation(*([part[name] for name in names] for part in dense))
        known = "" if bounds is None else f" (95 % interval {bounds.low:+.2f} to {bounds.high:+.2f})"
        found = f"Spearman correlation of the two dense rankings: {estimate:+.2f}{known}."
        parts.append(_NO_CORRELATION if np.isnan(estimate) else found)
    return " ".join(parts)


TABLE = Table(
    "Mean single-block drops in points (top-1, mIoU, box AP), lower is better, with ranks from 1 for the best,",
    (
        Head("Cls", ("cls",)),
        Head("Seg (rank)", ("seg", "seg_rank"), BEHIND),
        Head("Det (rank)", ("det", "det_rank"), BEHIND),
    ),
    cells,
    note=note,
)
