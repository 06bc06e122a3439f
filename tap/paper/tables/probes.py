"""Tables of the controlled probes: `tab:criteria`, `tab:criterion-summary`, `tab:paired-recovery`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tap.config.methods import CRITERIA, SCORES
from tap.criteria.registry import get
from tap.paper.evidence import Evidence
from tap.paper.measured import Value
from tap.paper.probe_results import Estimate, ProbeResults, correlation, files_behind, ranks
from tap.paper.reported import Printed, Row, load_reported
from tap.paper.statistics import interval, sample_sd
from tap.paper.tables.plain import PLUS_MINUS, Cells, Head, PlainTable
from tap.paper.tidy import METRICS_FILE
from tap.paper.tidy_probes import LAYERS, NO_PRUNING, RECOVERY

_DENSE_TASKS = ("seg", "det")
_ALL = ("cls", *_DENSE_TASKS)
_COVERAGE = "coverage"
_NAMES = {"top1": "top-1", "miou": "mIoU", "box_ap": "box AP", "mask_ap": "mask AP"}
_PAIRED = {"seg": ("seg", "miou"), "box": ("det", "box_ap"), "mask": ("det", "mask_ap")}
"""Task and metric by the first part of a row's key in `tab:paired-recovery`."""
_NO_CORRELATION = "The dense rankings have no correlation: fewer than two criteria in common, or all drops equal."


def files_of_probes(scale: str, task: str, root: Path) -> list[Path]:
    """What tables and figures of probes are made from: a task's probes, and what tells its floors if it has some.

    Raises:
        UserError: as `tap.paper.probe_results.files_behind`.
    """
    runs = Evidence(scale, root).floor_runs(task)
    floors = [path for run in runs if (path := root / run.folder / METRICS_FILE).is_file()]
    return [*files_behind(scale, task, root), *floors]


def criteria(evidence: Evidence) -> Cells:
    """The registry's families and rules."""
    found = {name: get(name) for name in CRITERIA}
    families = {(name, "family"): criterion.family for name, criterion in found.items()}
    words = {name: criterion.summary.replace(r"$\ell_", "\u2113").replace("$", "") for name, criterion in found.items()}
    rules = {(name, "rule"): text for name, text in words.items()}
    return families | rules


def criterion_summary(evidence: Evidence) -> Cells:
    """Mean drops, and for the dense tasks their ranks, from 1 for the smallest drop; ties share a rank."""
    cells: dict[tuple[str, str], Value] = {}
    for task in _ALL:
        probe = evidence.probe(task, LAYERS)
        if probe is None:
            continue
        drops = probe.mean_drops(SCORES[task][0])
        runs = (probe.id, *probe.runs)
        for name, drop in drops.items():
            cells[name, task] = Value(drop.value, None, probe.seeds, runs, drop.interval)
        if task in _DENSE_TASKS:
            for name, rank in ranks(drops).items():
                cells[name, f"{task}_rank"] = Value(rank.value, None, probe.seeds, runs, rank.interval)
    return cells


def rankings_note(evidence: Evidence) -> str:
    """What the summary's caption says of the probes and of the correlation between the dense tasks."""
    probes = [probe for task in _ALL if (probe := evidence.probe(task, LAYERS)) is not None]
    parts = [f"{protocol(probe)}{evidence.caveat(probe.task)}" for probe in probes]
    drops = [probe.mean_drops(SCORES[probe.task][0]) for probe in probes]
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


def paired_recovery(evidence: Evidence) -> Cells:
    """Both endpoints and their paired difference at every probed block."""
    cells: dict[tuple[str, str], Value] = {}
    for part, probe, metric in _paired_probes(evidence):
        for layer in probe.layers:
            cells |= {(f"{part}_{layer}", column): value for column, value in paired(probe, metric, layer).items()}
    return cells


def further_blocks(evidence: Evidence) -> list[Row]:
    """Rows of the probed blocks that the paper's table of the recovery probe does not list."""
    reported = load_reported("tab:paired-recovery")
    labels = {row.key.partition("_")[0]: row.label for row in reported.rows}
    listed = {row.key for row in reported.rows}
    rows = []
    for part, probe, _ in _paired_probes(evidence):
        for layer in probe.layers:
            words = {"task": Printed.parse(probe.task), "layer": Printed.parse(str(layer))}
            cells = tuple(words.get(column.key) for column in reported.columns)
            rows.append(Row(f"{part}_{layer}", labels[part], cells))
    return [row for row in rows if row.key not in listed]


def _paired_probes(evidence: Evidence) -> Iterator[tuple[str, ProbeResults, str]]:
    """First part of the rows' keys, recovery probe, and metric; without probes that are not made."""
    for part, (task, metric) in _PAIRED.items():
        probe = evidence.probe(task, RECOVERY)
        if probe is not None:
            yield part, probe, metric


def paired(probe: ProbeResults, metric: str, layer: int) -> dict[str, Value]:
    """The paired recovery probe at one block, by column; the difference is full offset minus stand-in."""
    runs = (probe.id, *probe.runs)
    by_seed = {
        alpha: [probe.score(_COVERAGE, metric, seed, layer, alpha) for seed in probe.seeds] for alpha in (1.0, 0.0)
    }

    def value(estimates: Sequence[Estimate], bounds: bool = False) -> Value:
        values = [estimate.value for estimate in estimates]
        known = [estimate.resampled for estimate in estimates if estimate.resampled is not None]
        mean = float(np.mean(values))
        found = interval(mean, np.mean(known, axis=0)) if bounds and len(known) == len(values) else None
        return Value(mean, sample_sd(values), probe.seeds, runs, found)

    difference = value([full - stand_in for full, stand_in in zip(by_seed[1.0], by_seed[0.0], strict=True)], True)
    cells = {
        "full_offset": value(by_seed[1.0]),
        "stand_in": value(by_seed[0.0]),
        "difference": difference,
        "anchor": value([probe.score(NO_PRUNING, metric, seed) for seed in probe.seeds]),
    }
    if difference.sd is not None:
        cells["difference_sd"] = Value(difference.sd, None, probe.seeds, runs)
    return cells


def recovery_note(evidence: Evidence) -> str:
    """What the caption of the recovery probe says of protocol, anchors, and blocks that the paper does not list."""
    parts = []
    for task in _DENSE_TASKS:
        probe = evidence.probe(task, RECOVERY)
        if probe is None:
            continue
        anchors = ", ".join(f"{probe.anchor(name).value:.1f} {_NAMES[name]}" for name in SCORES[task])
        parts.append(f"{protocol(probe)} No pruning: {anchors}.{evidence.caveat(task)}")
    if further_blocks(evidence):
        parts.append("The CSV file has the probed blocks that the paper does not list, too.")
    return " ".join([*parts, "Positive differences favour the full offset."])


def protocol(probe: ProbeResults) -> str:
    """Blocks, keep rate, endpoint, images and seeds of a probe in words."""
    pruned = probe.frame[probe.frame["criterion"] != NO_PRUNING]
    layers = probe.layers
    whole = layers == list(range(layers[0], layers[-1] + 1)) and len(layers) > 2
    blocks = f"{layers[0]} to {layers[-1]}" if whole else ", ".join(map(str, layers))
    endpoints = sorted(pruned["endpoint"].dropna().unique())
    endpoint = f", endpoint {endpoints[0]:g}" if len(endpoints) == 1 else ""
    seeds = ", ".join(map(str, probe.seeds))
    return (
        f"{probe.task}: blocks {blocks}, local keep rate {pruned['keep_rate'].iloc[0]:g}{endpoint}, "
        f"{pruned['images'].iloc[0]} images, seed{'s' if len(probe.seeds) > 1 else ''} {seeds}."
    )


CRITERIA_TABLE = PlainTable(
    "tab:criteria",
    (),
    "Criteria of the controlled probes as this project runs them",
    (Head("Family", ("family",)), Head("Rule and input", ("rule",), width=0.5)),
    criteria,
    scaled=False,
)

TABLES = (
    PlainTable(
        "tab:criterion-summary",
        _ALL,
        "Mean single-block drops in points (top-1, mIoU, box AP), lower is better, with ranks from 1 for the best,",
        (
            Head("Cls", ("cls",)),
            Head("Seg (rank)", ("seg", "seg_rank"), " (", ")"),
            Head("Det (rank)", ("det", "det_rank"), " (", ")"),
        ),
        criterion_summary,
        note=rankings_note,
        reads=files_of_probes,
    ),
    PlainTable(
        "tab:paired-recovery",
        _DENSE_TASKS,
        "Paired recovery probe: coverage, read with the full offset or the stand-in alone; mean and SD over seeds,",
        (
            Head("Block", ("layer",)),
            Head("Full offset", ("full_offset",)),
            Head("Stand-in", ("stand_in",)),
            Head(r"Paired $\Delta\pm$SD", ("difference", "difference_sd"), PLUS_MINUS),
        ),
        paired_recovery,
        words=("task", "layer"),
        note=recovery_note,
        reads=files_of_probes,
        further=further_blocks,
    ),
)
