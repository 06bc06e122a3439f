"""`tab:paired-recovery`: both recovery endpoints at every probed block, also those that the paper does not list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tap.paper.estimate import Estimate, over_seeds
from tap.paper.evidence import Evidence
from tap.paper.measured import Value
from tap.paper.probe_results import ProbeResults
from tap.paper.reported import Row
from tap.paper.tables.protocol import protocol
from tap.paper.tables.table import PLUS_MINUS, Cells, Content, Head, Table, stated
from tap.paper.tidy_probes import NO_PRUNING, RECOVERY
from tap.paper.units import text_of_score
from tap.task_facts import DENSE_TASKS, TASKS

READS = "probes"

_COVERAGE = "coverage"


def _parts() -> Iterator[tuple[str, tuple[str, str, str]]]:
    for task in DENSE_TASKS:
        several = len(TASKS[task].metrics) > 1
        for metric in TASKS[task].metrics:
            own = metric.name.partition("_")[0]
            yield (
                (own, (f"{task.title()} {own}", task, metric.name))
                if several
                else (task, (task.title(), task, metric.name))
            )


_PARTS = dict(_parts())
"""Printed name, task and metric by the first part of a row's key: the task's name, or the metric's of several."""


def cells(evidence: Evidence) -> Cells:
    """Both endpoints and their paired difference at every probed block."""
    found: dict[tuple[str, str], Content] = {}
    for part, probe, metric in _paired_probes(evidence):
        for layer in probe.layers:
            row = f"{part}_{layer}"
            found |= {(row, "task"): stated(probe.task), (row, "layer"): stated(str(layer))}
            found |= {(row, column): value for column, value in paired(probe, metric, layer).items()}
    return found


def row(key: str) -> Row:
    """Named as the paper names its rows."""
    return Row(key, _PARTS[key.partition("_")[0]][0])


def _paired_probes(evidence: Evidence) -> Iterator[tuple[str, ProbeResults, str]]:
    """First part of the rows' keys, recovery probe, and metric; without probes that are not made."""
    for part, (_, task, metric) in _PARTS.items():
        probe = evidence.probe(task, RECOVERY)
        if probe is not None:
            yield part, probe, metric


def paired(probe: ProbeResults, metric: str, layer: int) -> dict[str, Value]:
    """The paired recovery probe at one block, by column; the difference is what the full offset gains."""
    gain = TASKS[probe.task].metric(metric).gain
    runs = (probe.id, *probe.runs)
    by_seed = {
        alpha: [probe.score(_COVERAGE, metric, seed, layer, alpha) for seed in probe.seeds] for alpha in (1.0, 0.0)
    }

    def value(estimates: Sequence[Estimate], bounds: bool = False) -> Value:
        joined = over_seeds(estimates)
        by_seed = dict(zip(probe.seeds, map(float, joined.by_seed), strict=True))
        return Value.of(by_seed, runs, joined if bounds else None)

    difference = value([gain(full, stand_in) for full, stand_in in zip(by_seed[1.0], by_seed[0.0], strict=True)], True)
    found: dict[str, Value] = {
        "full_offset": value(by_seed[1.0]),
        "stand_in": value(by_seed[0.0]),
        "difference": difference,
        "anchor": value([probe.score(NO_PRUNING, metric, seed) for seed in probe.seeds]),
    }
    if difference.sd is not None:
        found["difference_sd"] = Value(difference.sd, None, probe.seeds, runs)
    return found


def note(evidence: Evidence) -> str:
    """What the caption says of protocol and anchors."""
    parts = []
    for task in DENSE_TASKS:
        probe = evidence.probe(task, RECOVERY)
        if probe is None:
            continue
        anchors = ", ".join(
            f"{text_of_score(item, probe.anchor(item.name).value)} {item.title}" for item in TASKS[task].metrics
        )
        parts.append(f"{protocol(probe)} No pruning: {anchors}.{evidence.caveat(task)}")
    return " ".join([*parts, "Positive differences favour the full offset."])


TABLE = Table(
    "Paired recovery probe: coverage, read with the full offset or the stand-in alone; mean and SD over seeds,",
    (
        Head("Block", ("layer",)),
        Head("Full offset", ("full_offset",)),
        Head("Stand-in", ("stand_in",)),
        Head(r"Paired $\Delta\pm$SD", ("difference", "difference_sd"), PLUS_MINUS),
    ),
    cells,
    words=("task", "layer"),
    note=note,
    row=row,
    task_of=lambda key: _PARTS[key.partition("_")[0]][1],
)
