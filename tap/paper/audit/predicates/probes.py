"""Predicates about the controlled probes: rankings across tasks, depth, and recovery endpoints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from tap.errors import UserError
from tap.paper.audit.decision import ALPHA, LEAST_SEEDS, Decision, above, all_above
from tap.paper.audit.outcome import Outcome, Verdict, not_measured
from tap.paper.estimate import Derived, Estimate
from tap.paper.evidence import Evidence, reference
from tap.paper.measured import Value
from tap.paper.names import task_title, title_of
from tap.paper.probe_results import ProbeResults, correlation, ranks, stretch
from tap.paper.reported import load_reported
from tap.paper.statistics import Array, Interval, spearman


def drops_more(
    evidence: Evidence, *, task: str, metric: str, a: str, b: str, layers: str = "all", points: float = 0.0
) -> Outcome:
    """Whether criterion `a` loses more than criterion `b` over a stretch of blocks.

    Args:
        evidence: the results.
        task: cls, seg or det.
        metric: the score.
        a: criterion that is claimed to lose more.
        b: the other criterion.
        layers: ``early``, ``late`` or ``all`` of the probed blocks.
        points: by how much at least.
    """
    probe = evidence.probe(task, "layers")
    if probe is None or not {a, b} <= set(probe.criteria):
        return _absent(evidence, task, "layers", a, b)
    blocks = stretch(probe.layers, layers)
    gap = probe.drop(a, metric, blocks) - probe.drop(b, metric, blocks)
    sentence = (
        f"Drop with {_name(a)} minus drop with {_name(b)}, {task} {metric}, mean over {_blocks(blocks)} and "
        f"{_checkpoints(probe)}: {_shown(gap)}."
    )
    return _judged(evidence, probe, sentence, gap, points)


def gap_shrinks(evidence: Evidence, *, task: str, metric: str, a: str, b: str) -> Outcome:
    """Whether what criterion `a` loses more than `b` is larger in the early blocks than in the rest."""
    probe = evidence.probe(task, "layers")
    if probe is None or not {a, b} <= set(probe.criteria):
        return _absent(evidence, task, "layers", a, b)
    early, late = (stretch(probe.layers, which) for which in ("early", "late"))
    gaps = [probe.drop(a, metric, blocks) - probe.drop(b, metric, blocks) for blocks in (early, late)]
    change = gaps[0] - gaps[1]
    sentence = (
        f"Drop with {_name(a)} minus drop with {_name(b)}, {task} {metric}, mean over {_checkpoints(probe)}: "
        f"{gaps[0].value:+.2f} at {_blocks(early)}, {gaps[1].value:+.2f} at {_blocks(late)}; change {_shown(change)}."
    )
    return _judged(evidence, probe, sentence, change)


def rankings_oppose(
    evidence: Evidence, *, first: str, first_metric: str, second: str, second_metric: str, reported: str
) -> Outcome:
    """Whether the mean drops of the criteria are negatively correlated by rank between two tasks.

    Images and seeds of the two tasks are resampled independently, and the criteria with them. Beside the interval the
    p-value of Spearman's correlation over the criteria counts; a contradiction takes as many seeds of one sign as
    elsewhere, and an interval without the printed correlation.
    """
    probes, absent = _both(evidence, first, second)
    if absent is not None:
        return absent
    drops = [probe.mean_drops(metric) for probe, metric in zip(probes, (first_metric, second_metric), strict=True)]
    names = [name for name in drops[0] if name in drops[1]]
    estimate, found = correlation(*([part[name] for name in names] for part in drops))
    by_seed = _correlations(*([part[name].by_seed for name in names] for part in drops))
    decision = _of_correlation(estimate, found, by_seed, len(names), float(reference(reported).value or 0))
    bounds = "" if found is None else f" [{found.low:+.2f}, {found.high:+.2f}]"
    shown = "undefined" if math.isnan(estimate) else f"{estimate:+.2f}{bounds}"
    sentence = (
        f"Spearman correlation of {len(names)} criteria between {first} ({_checkpoints(probes[0])}) and {second} "
        f"({_checkpoints(probes[1])}): {shown} (paper {reference(reported).text})."
    )
    outcome = _outcome(evidence, probes, decision, sentence, Derived(estimate, None))
    low, high = (None, None) if found is None else (found.low, found.high)
    return replace(outcome, low=low, high=high, by_seed=by_seed)


def ranks_at(evidence: Evidence, *, task: str, metric: str, criterion: str, place: str) -> Outcome:
    """Whether a criterion has the smallest (``first``) or the largest (``last``) mean drop of all.

    It is judged by the distance from every other criterion: all of them clearly on the right side support, one clearly
    on the wrong side, for all that were looked at, contradicts. The rank and its interval are shown.
    """
    probe = evidence.probe(task, "layers")
    if probe is None or criterion not in probe.criteria:
        return _absent(evidence, task, "layers", criterion)
    drops = probe.mean_drops(metric)
    rank = ranks(drops)[criterion]
    places = {"first": 1, "last": len(probe.criteria)}
    if place not in places:
        raise UserError(f"place: '{place}' is not one of {', '.join(places)}")
    wanted = places[place]
    gaps = {name: drop - drops[criterion] for name, drop in drops.items() if name != criterion}
    if place == "last":
        gaps = {name: drops[criterion] - drops[name] for name in gaps}
    decision = all_above({name: above(_value(probe, gap), minimum=0.0) for name, gap in gaps.items()})
    sentence = (
        f"Rank of {_name(criterion)} among {len(probe.criteria)} criteria by mean drop (1 is the smallest), {task} "
        f"{metric}, over {_checkpoints(probe)}: {_rank(rank)}; {wanted} is claimed."
    )
    return _outcome(evidence, [probe], decision, sentence, rank)


def best_is_poor_elsewhere(
    evidence: Evidence, *, first: str, first_metric: str, second: str, second_metric: str
) -> Outcome:
    """Whether the criterion with the smallest mean drop on one task ranks in the poorer half on another.

    Images and seeds of the two tasks are resampled independently; which criterion is the best is found anew each time.
    """
    probes, absent = _both(evidence, first, second)
    if absent is not None:
        return absent
    drops = [probe.mean_drops(metric) for probe, metric in zip(probes, (first_metric, second_metric), strict=True)]
    names = [name for name in drops[0] if name in drops[1]]
    if len(names) < 2:
        return not_measured(f"probes of {task_title(first)} and {task_title(second)} with two criteria in common")
    ours, theirs = (ranks({name: part[name] for name in names}) for part in drops)
    best = min(names, key=lambda name: ours[name].value)
    rank = Derived(theirs[best].value, _rank_of_best([ours[name] for name in names], [theirs[name] for name in names]))
    middle = (len(names) + 1) / 2
    sentence = (
        f"{_name(best)} has the smallest mean drop on {first} ({_checkpoints(probes[0])}); rank of the criterion that "
        f"does, among {len(names)} on {second} ({_checkpoints(probes[1])}): {_rank(rank)}; the poorer half, above "
        f"{middle:g}, is claimed."
    )
    return _outcome(evidence, probes, _of_rank(rank, middle, min(len(probe.seeds) for probe in probes)), sentence, rank)


def prefers_endpoint(evidence: Evidence, *, task: str, metric: str, endpoint: float) -> Outcome:
    """Whether a task scores higher with one recovery endpoint (1 full offset, 0 stand-in) than with the other."""
    probe = evidence.probe(task, "recovery")
    if probe is None:
        return _absent(evidence, task, "recovery")
    criterion = probe.criteria[0]
    drops = {alpha: probe.drop(criterion, metric, probe.layers, alpha) for alpha in (0.0, 1.0)}
    gain = drops[1.0 - endpoint] - drops[endpoint]
    ours, other = ("full offset", "stand-in") if endpoint == 1.0 else ("stand-in", "full offset")
    sentence = (
        f"{ours} minus {other}, {task} {metric}, mean over {_blocks(probe.layers)} and {_checkpoints(probe)}: "
        f"{_shown(gain)}."
    )
    return _judged(evidence, probe, sentence, gain)


def _both(evidence: Evidence, *tasks: str) -> tuple[list[ProbeResults], Outcome | None]:
    """The layer probes of tasks, and what to say where one is not made."""
    probes = {task: evidence.probe(task, "layers") for task in tasks}
    missing = [
        text for task, probe in probes.items() if probe is None for text in _absent(evidence, task, "layers").missing
    ]
    return [probe for probe in probes.values() if probe is not None], not_measured(*missing) if missing else None


def _of_rank(rank: Derived, middle: float, seeds: int) -> Decision:
    """Whether a rank lies above the middle, by its interval and by how many resamples say otherwise."""
    found = rank.interval
    if found is None or rank.drawn is None:
        return Decision(Verdict.INCONCLUSIVE, None, "Single images are not known, so nothing is decided.")
    if seeds < LEAST_SEEDS:
        return Decision(Verdict.INCONCLUSIVE, None, f"A rank is judged with {LEAST_SEEDS} seeds or more.")
    others = min(np.mean(rank.drawn <= middle), np.mean(rank.drawn >= middle))
    p = float(min(1.0, 2 * max(others, 1 / len(rank.drawn))))
    verdict = {1: Verdict.SUPPORTED, 0: Verdict.INCONCLUSIVE, -1: Verdict.CONTRADICTED}
    return Decision(verdict[int(found.low > middle) - int(found.high < middle)], p)


def _correlations(first: Sequence[Array], second: Sequence[Array]) -> tuple[float, ...]:
    """The correlation of each seed, of as many as both tasks have."""
    seeds = min(len(first[0]), len(second[0])) if first else 0
    found = (
        spearman(*(np.stack([values[:seeds] for values in part], axis=1) for part in (first, second))) if seeds else ()
    )
    return tuple(float(value) for value in found)


def _of_correlation(
    estimate: float, found: Interval | None, by_seed: Sequence[float], items: int, printed: float
) -> Decision:
    """Whether a correlation is negative."""
    if found is None or items < 3 or math.isnan(estimate):
        return Decision(Verdict.INCONCLUSIVE, None, "There is no interval, so nothing is decided.")
    p = _p_of_correlation(estimate, items)
    if p <= ALPHA and found.sign < 0:
        return Decision(Verdict.SUPPORTED, p)
    positive = len(by_seed) >= LEAST_SEEDS and min(by_seed) > 0 and not found.low <= printed <= found.high
    if p <= ALPHA and found.sign > 0 and positive:
        return Decision(Verdict.CONTRADICTED, p)
    return Decision(
        Verdict.INCONCLUSIVE, p, f"Over {items} criteria the interval or too few seeds leave the sign open."
    )


def _p_of_correlation(estimate: float, items: int) -> float:
    """Two-sided p-value of Spearman's correlation of that many items, by its t statistic."""
    if abs(estimate) >= 1:
        return 2 / math.factorial(items)
    return float(2 * stats.t.sf(abs(estimate) * math.sqrt((items - 2) / (1 - estimate**2)), items - 2))


def _rank_of_best(ours: list[Derived], theirs: list[Derived]) -> Array | None:
    """On each resample the rank there of the criterion that is the best here; of several that tie, their mean."""
    here, there = ([item.drawn for item in part if item.drawn is not None] for part in (ours, theirs))
    if len(here) < len(ours) or len(there) < len(theirs):
        return None
    best = np.stack(here) == np.min(here, axis=0)
    return (best * np.stack(there)).sum(axis=0) / best.sum(axis=0)


def _absent(evidence: Evidence, task: str, kind: str, *criteria: str) -> Outcome:
    """The probe is not made, or without some criteria (`tasks.<task>.probes.criteria` says which)."""
    probe = evidence.probe(task, kind)
    lacking = [name for name in criteria if probe is not None and name not in probe.criteria]
    which = f" with {' and '.join(map(_name, lacking))}" if lacking else ""
    return not_measured(f"{title_of(f'probes/{task}/{kind}')}{which}")


def _name(criterion: str) -> str:
    return {row.key: row.label for row in load_reported("tab:criterion-summary").rows}.get(criterion, criterion)


def _blocks(layers: list[int]) -> str:
    return f"block{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def _shown(estimate: Estimate) -> str:
    found = estimate.interval
    return f"{estimate.value:+.2f}" + ("" if found is None else f" [{found.low:+.2f}, {found.high:+.2f}]")


def _rank(estimate: Derived) -> str:
    found = estimate.interval
    return f"{estimate.value:g}" + ("" if found is None else f" [{found.low:g}, {found.high:g}]")


def _checkpoints(probe: ProbeResults) -> str:
    count = len(probe.runs)
    return f"{count} checkpoint{'s' if count > 1 else ''}"


def _value(probe: ProbeResults, estimate: Estimate) -> Value:
    return Value.of(dict(zip(probe.seeds, map(float, estimate.by_seed), strict=True)), probe.runs, estimate)


def _judged(
    evidence: Evidence, probe: ProbeResults, sentence: str, estimate: Estimate, threshold: float = 0.0
) -> Outcome:
    """Whether a difference of one probe lies above a threshold."""
    value = _value(probe, estimate)
    decision = above(value, threshold)
    return replace(_outcome(evidence, [probe], decision, sentence, estimate.derived), by_seed=value.by_seed)


def _outcome(
    evidence: Evidence, probes: list[ProbeResults], decision: Decision, sentence: str, estimate: Derived
) -> Outcome:
    """With the warnings of the tasks concerned; the bounds are those of the estimate if it has some."""
    found = estimate.interval
    low, high = (None, None) if found is None else (found.low, found.high)
    sentence += "".join(evidence.caveat(probe.task) for probe in probes)
    return Outcome(
        decision.verdict,
        f"{sentence} {decision.reason}".rstrip(),
        None if math.isnan(estimate.value) else estimate.value,
        low,
        high,
        tuple(sorted({seed for probe in probes for seed in probe.seeds})),
        tuple(name for probe in probes for name in (probe.id, *probe.runs)),
        tuple(dict.fromkeys(device for probe in probes for device in probe.facts("device"))),
        p=decision.p,
        reason=decision.reason,
    )
