"""What the probe figures show, as plain tables: the CSV behind each figure is one of these."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tap.config.methods import SCORES
from tap.paper.evidence import Evidence
from tap.paper.probe_results import Estimate, ProbeResults, correlation
from tap.paper.tidy_probes import LAYERS, RECOVERY

COLUMNS = ("panel", "task", "metric", "series", "layer", "value", "low", "high", "sd", "runs")
"""One line per drawn number, in points: panel, what it is of, its value, 95 % interval over the images, standard
deviation over seeds, and the ids of the probe and of its checkpoints. Layer 0 is a mean over all probed blocks."""

TASKS = ("cls", "seg", "det")
_ATTENTION, _COVERAGE = "attention_mean", "coverage"
_ENDPOINTS = {1.0: "full offset", 0.0: "stand-in"}


def all_probes(evidence: Evidence) -> pd.DataFrame:
    """Drops of every criterion at every eligible block of every task."""
    probes = [probe for task in TASKS if (probe := evidence.probe(task, LAYERS)) is not None]
    return _frame(line for probe in probes for line in _drops(probe, probe.task))


def insight(evidence: Evidence) -> pd.DataFrame:
    """The four panels of the paper's first figure."""
    return _frame(_insight(evidence))


def _insight(evidence: Evidence) -> Iterator[dict]:
    cls = evidence.probe("cls", LAYERS)
    if cls is not None:
        yield from _drops(cls, "a")
    dense = [probe for task in ("seg", "det") if (probe := evidence.probe(task, LAYERS)) is not None]
    for probe in dense:
        metric = SCORES[probe.task][0]
        if {_ATTENTION, _COVERAGE} <= set(probe.criteria):
            for layer in probe.layers:
                gap = probe.drop(_ATTENTION, metric, [layer]) - probe.drop(_COVERAGE, metric, [layer])
                yield _line("b", probe, metric, "attention - coverage", layer, gap)
    drops = [probe.mean_drops(SCORES[probe.task][0]) for probe in dense]
    for probe, found in zip(dense, drops, strict=True):
        for name, drop in found.items():
            yield _line("c", probe, SCORES[probe.task][0], name, 0, drop)
    if len(dense) == 2:
        common = [name for name in drops[0] if name in drops[1]]
        value, bounds = correlation(*([part[name] for name in common] for part in drops))
        line = _line("c", dense[0], "", "rank correlation", 0, Estimate(value, None))
        known = {} if bounds is None else {"low": bounds.low, "high": bounds.high}
        runs = " ".join((*line["runs"].split(), *_runs(dense[1])))
        yield {**line, "task": "seg, det", "runs": runs, **known}
    for task in ("seg", "det"):
        recovery = evidence.probe(task, RECOVERY)
        for metric in SCORES[task] if recovery is not None else ():
            assert recovery is not None
            for alpha, name in _ENDPOINTS.items():
                criterion = recovery.criteria[0]
                drop = recovery.drop(criterion, metric, recovery.layers, alpha)
                yield _line("d", recovery, metric, name, 0, drop, _spread(recovery, criterion, metric, alpha))


def _drops(probe: ProbeResults, panel: str) -> Iterator[dict]:
    metric = SCORES[probe.task][0]
    for name in probe.criteria:
        for layer in probe.layers:
            yield _line(panel, probe, metric, name, layer, probe.drop(name, metric, [layer]))


def _spread(probe: ProbeResults, criterion: str, metric: str, alpha: float) -> float | None:
    """Standard deviation over seeds of the mean drop."""
    means = pd.Series(
        [
            sum(
                probe.score("dense", metric, seed).value - probe.score(criterion, metric, seed, layer, alpha).value
                for layer in probe.layers
            )
            / len(probe.layers)
            for seed in probe.seeds
        ]
    )
    return float(means.std(ddof=1)) if len(means) > 1 else None


def _line(
    panel: str, probe: ProbeResults, metric: str, series: str, layer: int, estimate: Estimate, sd: float | None = None
) -> dict:
    bounds = estimate.interval
    line = {"panel": panel, "task": probe.task, "metric": metric, "series": series, "layer": layer}
    line |= {"value": estimate.value, "sd": sd, "runs": " ".join(_runs(probe))}
    return line if bounds is None else {**line, "low": bounds.low, "high": bounds.high}


def _runs(probe: ProbeResults) -> tuple[str, ...]:
    return (probe.id, *probe.runs)


def _frame(lines: Iterator[dict]) -> pd.DataFrame:
    frame = pd.DataFrame(list(lines), columns=list(COLUMNS))
    return frame.astype({"value": float, "low": float, "high": float, "sd": float})
