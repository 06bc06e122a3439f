"""What probe figures show, as plain tables: the CSV behind each figure is made of such lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from tap.config.methods import DENSE, SCORES
from tap.paper.estimate import Derived, Estimate
from tap.paper.probe_results import ProbeResults
from tap.paper.reported import load_reported, reported_path
from tap.task_facts import TASKS

COLUMNS = ("panel", "task", "metric", "series", "layer", "value", "low", "high", "sd", "in_paper", "runs")
"""One line per drawn number, in points (or the metric's own unit): panel, what it is of, its value, 95 % interval over
images and seeds, standard deviation over seeds, whether the paper's figure has it, and the ids of the probe and of its
checkpoints. Layer 0 is a mean over all probed blocks."""

IN_PAPER = tuple(task for task in TASKS if reported_path(f"tab:{task}").is_file())
"""Tasks of the paper's figures: those that it has a table of."""

ATTENTION, COVERAGE = "attention_mean", "coverage"


def drops(probe: ProbeResults, panel: str) -> Iterator[dict]:
    """Lines of every criterion at every probed block."""
    metric = SCORES[probe.task][0]
    for name in probe.criteria:
        for layer in probe.layers:
            yield line(panel, probe, metric, name, layer, probe.drop(name, metric, [layer]))


def spread(probe: ProbeResults, criterion: str, metric: str, alpha: float) -> float | None:
    """Standard deviation over seeds of the mean drop."""
    gain = TASKS[probe.task].metric(metric).gain

    def drop(seed: int, layer: int) -> float:
        pruned = probe.score(criterion, metric, seed, layer, alpha)
        return gain(probe.score(DENSE, metric, seed).value, pruned.value)

    means = pd.Series([sum(drop(seed, layer) for layer in probe.layers) / len(probe.layers) for seed in probe.seeds])
    return float(means.std(ddof=1)) if len(means) > 1 else None


def line(
    panel: str,
    probe: ProbeResults,
    metric: str,
    series: str,
    layer: int,
    estimate: Estimate | Derived,
    sd: float | None = None,
) -> dict:
    """A line of `COLUMNS`."""
    bounds = estimate.interval
    found = {"panel": panel, "task": probe.task, "metric": metric, "series": series, "layer": layer}
    found |= {
        "value": estimate.value,
        "sd": sd,
        "in_paper": probe.task in IN_PAPER and series not in unprinted([probe]),
    }
    found |= {"runs": " ".join(runs_of(probe))}
    return found if bounds is None else {**found, "low": bounds.low, "high": bounds.high}


def unprinted(probes: Iterable[ProbeResults]) -> list[str]:
    """Criteria that were probed and that the paper does not have."""
    printed = {row.key for row in load_reported("tab:criterion-summary").rows}
    return [name for name in dict.fromkeys(name for probe in probes for name in probe.criteria) if name not in printed]


def runs_of(probe: ProbeResults) -> tuple[str, ...]:
    """Ids of a probe and of its checkpoints."""
    return (probe.id, *probe.runs)


def framed(lines: Iterator[dict]) -> pd.DataFrame:
    """Lines as a table with the columns `COLUMNS`."""
    frame = pd.DataFrame(list(lines), columns=list(COLUMNS))
    return frame.astype({"value": float, "low": float, "high": float, "sd": float})
