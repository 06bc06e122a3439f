"""Tables of the controlled probes: `tab:criteria`, `tab:criterion-summary`, `tab:paired-recovery`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tap.config.methods import CRITERIA, SCORES
from tap.criteria.registry import get
from tap.paper.evidence import Evidence
from tap.paper.measured import Value
from tap.paper.probe_results import Estimate, ProbeResults, correlation
from tap.paper.reported import load_reported
from tap.paper.statistics import average_ranks, interval, sample_sd
from tap.paper.tables.plain import Cells, Head, PlainTable
from tap.paper.tidy_probes import LAYERS, NO_PRUNING, RECOVERY, tidy_probes_path

_DENSE_TASKS = ("seg", "det")
_ALL = ("cls", *_DENSE_TASKS)
_COVERAGE = "coverage"
_NAMES = {"top1": "top-1", "miou": "mIoU", "box_ap": "box AP", "mask_ap": "mask AP"}


def criteria(evidence: Evidence) -> Cells:
    """The registry's families and rules."""
    found = {name: get(name) for name in CRITERIA}
    families = {(name, "family"): criterion.family for name, criterion in found.items()}
    words = {name: criterion.summary.replace(r"$\ell_", "\u2113").replace("$", "") for name, criterion in found.items()}
    rules = {(name, "rule"): text for name, text in words.items()}
    return families | rules


def mean_drops(probe: ProbeResults) -> dict[str, Estimate]:
    """Mean drop of every criterion over the probed blocks, by the task's first score."""
    metric = SCORES[probe.task][0]
    return {name: probe.drop(name, metric, probe.layers) for name in probe.criteria}


def criterion_summary(evidence: Evidence) -> Cells:
    """Mean drops, and for the dense tasks their ranks, from 1 for the smallest drop; ties share a rank."""
    cells: dict[tuple[str, str], Value] = {}
    for task in _ALL:
        probe = evidence.probe(task, LAYERS)
        if probe is None:
            continue
        drops = mean_drops(probe)
        runs = (probe.id, *probe.runs)
        for name, drop in drops.items():
            cells[name, task] = Value(drop.value, None, probe.seeds, runs, drop.interval)
        if task in _DENSE_TASKS:
            for name, rank in _ranks(drops).items():
                cells[name, f"{task}_rank"] = Value(rank.value, None, probe.seeds, runs, rank.interval)
    return cells


def rankings_note(evidence: Evidence) -> str:
    """What the summary's caption says of the probes and of the correlation between the dense tasks."""
    probes = [evidence.probe(task, LAYERS) for task in _ALL]
    parts = [_protocol(probe) for probe in probes if probe is not None]
    dense = [probe for probe in probes[1:] if probe is not None]
    if len(dense) == 2:
        drops = [mean_drops(probe) for probe in dense]
        names = [name for name in drops[0] if name in drops[1]]
        if len(names) > 1:
            estimate, bounds = correlation(*([part[name] for name in names] for part in drops))
            if not np.isnan(estimate):
                known = "" if bounds is None else f" (95 % interval {bounds.low:+.2f} to {bounds.high:+.2f})"
                parts.append(f"Spearman correlation of the two dense rankings: {estimate:+.2f}{known}.")
    return " ".join(parts)


def paired_recovery(evidence: Evidence) -> Cells:
    """Both endpoints and their paired difference at the blocks that the paper lists."""
    cells: dict[tuple[str, str], Value] = {}
    for row in load_reported("tab:paired-recovery").rows:
        part, _, block = row.key.partition("_")
        task, metric = {"seg": ("seg", "miou"), "box": ("det", "box_ap"), "mask": ("det", "mask_ap")}[part]
        probe = evidence.probe(task, RECOVERY)
        if probe is None or int(block) not in probe.layers:
            continue
        cells |= {(row.key, column): value for column, value in paired(probe, metric, int(block)).items()}
    return cells


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
    """What the caption of the recovery probe says of seeds, anchors, and blocks that the paper does not list."""
    parts = []
    for task in _DENSE_TASKS:
        probe = evidence.probe(task, RECOVERY)
        if probe is None:
            continue
        anchors = ", ".join(f"{probe.anchor(name).value:.1f} {_NAMES[name]}" for name in SCORES[task])
        parts.append(f"{_protocol(probe)} No pruning: {anchors}.")
    return " ".join([*parts, "Positive differences favour the full offset."])


def _ranks(drops: dict[str, Estimate]) -> dict[str, Estimate]:
    values = average_ranks(np.array([drop.value for drop in drops.values()]))
    parts = [drop.resampled for drop in drops.values()]
    known = [part for part in parts if part is not None]
    resampled = average_ranks(np.stack(known, axis=1)) if len(known) == len(parts) else None
    return {
        name: Estimate(float(values[number]), None if resampled is None else resampled[:, number])
        for number, name in enumerate(drops)
    }


def _protocol(probe: ProbeResults) -> str:
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
        tidy=(tidy_probes_path,),
    ),
    PlainTable(
        "tab:paired-recovery",
        _DENSE_TASKS,
        "Paired recovery probe: coverage, read with the full offset or the stand-in alone; mean and SD over seeds,",
        (
            Head("Block", ("layer",)),
            Head("Full offset", ("full_offset",)),
            Head("Stand-in", ("stand_in",)),
            Head(r"Paired $\Delta\pm$SD", ("difference", "difference_sd"), r"$\pm$"),
        ),
        paired_recovery,
        words=("task", "layer"),
        note=recovery_note,
        tidy=(tidy_probes_path,),
    ),
)
