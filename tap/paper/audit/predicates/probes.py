"""Predicates about the controlled probes: rankings across tasks, depth, and recovery endpoints."""

from __future__ import annotations

from tap.config.jobs import probe_folder
from tap.paper.audit.outcome import Outcome, Verdict, by_interval, not_measured
from tap.paper.evidence import Evidence, reference
from tap.paper.probe_results import Estimate, ProbeResults, correlation, stretch
from tap.paper.reported import load_reported
from tap.paper.tidy_probes import VALUES


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
    sentence = f"Drop with {_name(a)} minus drop with {_name(b)}, {task} {metric}, {_blocks(blocks)}: {_shown(gap)}."
    return _outcome(probe, by_interval(gap.interval, points), sentence, gap)


def gap_shrinks(evidence: Evidence, *, task: str, metric: str, a: str, b: str) -> Outcome:
    """Whether what criterion `a` loses more than `b` is larger in the early blocks than in the rest."""
    probe = evidence.probe(task, "layers")
    if probe is None or not {a, b} <= set(probe.criteria):
        return _absent(evidence, task, "layers", a, b)
    early, late = (stretch(probe.layers, which) for which in ("early", "late"))
    gaps = [probe.drop(a, metric, blocks) - probe.drop(b, metric, blocks) for blocks in (early, late)]
    change = gaps[0] - gaps[1]
    sentence = (
        f"Drop with {_name(a)} minus drop with {_name(b)}, {task} {metric}: {gaps[0].value:+.2f} at {_blocks(early)}, "
        f"{gaps[1].value:+.2f} at {_blocks(late)}; change {_shown(change)}."
    )
    return _outcome(probe, by_interval(change.interval), sentence, change)


def rankings_oppose(
    evidence: Evidence, *, first: str, first_metric: str, second: str, second_metric: str, reported: str
) -> Outcome:
    """Whether the mean drops of the criteria are negatively correlated by rank between two tasks.

    The images of the two tasks are resampled independently.
    """
    probes = [evidence.probe(task, "layers") for task in (first, second)]
    if probes[0] is None or probes[1] is None:
        absent = [task for task, probe in zip((first, second), probes, strict=True) if probe is None]
        return not_measured(*(text for task in absent for text in _absent(evidence, task, "layers").missing))
    one, two = probes[0], probes[1]
    names = [name for name in one.criteria if name in two.criteria]
    drops = [
        [probe.drop(name, metric, probe.layers) for name in names]
        for probe, metric in ((one, first_metric), (two, second_metric))
    ]
    estimate, found = correlation(*drops)
    verdict = Verdict.INCONCLUSIVE
    if found is not None:
        verdict = {1: Verdict.CONTRADICTED, -1: Verdict.SUPPORTED, 0: Verdict.INCONCLUSIVE}[found.sign]
    bounds = "" if found is None else f" [{found.low:+.2f}, {found.high:+.2f}]"
    sentence = (
        f"Spearman correlation of {len(names)} criteria between {first} and {second}: {estimate:+.2f}{bounds} "
        f"(paper {reference(reported).text})."
    )
    runs = (one.id, two.id, *one.runs, *two.runs)
    devices = tuple(dict.fromkeys((*one.facts("device"), *two.facts("device"))))
    low, high = (None, None) if found is None else (found.low, found.high)
    return Outcome(verdict, sentence, estimate, low, high, runs=runs, devices=devices)


def prefers_endpoint(evidence: Evidence, *, task: str, metric: str, endpoint: float) -> Outcome:
    """Whether a task scores higher with one recovery endpoint (1 full offset, 0 stand-in) than with the other."""
    probe = evidence.probe(task, "recovery")
    if probe is None:
        return _absent(evidence, task, "recovery")
    criterion = probe.criteria[0]
    drops = {alpha: probe.drop(criterion, metric, probe.layers, alpha) for alpha in (0.0, 1.0)}
    gain = drops[1.0 - endpoint] - drops[endpoint]
    ours, other = ("full offset", "stand-in") if endpoint == 1.0 else ("stand-in", "full offset")
    seeds = len(probe.seeds)
    sentence = (
        f"{ours} minus {other}, {task} {metric}, mean over {_blocks(probe.layers)} and {seeds} "
        f"checkpoint{'s' if seeds > 1 else ''}: {_shown(gain)}."
    )
    return _outcome(probe, by_interval(gain.interval), sentence, gain)


def _absent(evidence: Evidence, task: str, kind: str, *criteria: str) -> Outcome:
    """The probe is not made, or without some criteria (`tasks.<task>.probes.criteria` says which)."""
    probe = evidence.probe(task, kind)
    lacking = [name for name in criteria if probe is not None and name not in probe.criteria]
    which = f" with {' and '.join(lacking)}" if lacking else ""
    return not_measured(f"{probe_folder(evidence.scale, task, kind)}/{VALUES}{which}")


def _name(criterion: str) -> str:
    return {row.key: row.label for row in load_reported("tab:criterion-summary").rows}.get(criterion, criterion)


def _blocks(layers: list[int]) -> str:
    return f"block{'s' if len(layers) > 1 else ''} {', '.join(map(str, layers))}"


def _shown(estimate: Estimate) -> str:
    found = estimate.interval
    return f"{estimate.value:+.2f}" + ("" if found is None else f" [{found.low:+.2f}, {found.high:+.2f}]")


def _outcome(probe: ProbeResults, verdict: Verdict, sentence: str, estimate: Estimate) -> Outcome:
    found = estimate.interval
    low, high = (None, None) if found is None else (found.low, found.high)
    devices = tuple(probe.facts("device"))
    return Outcome(verdict, sentence, estimate.value, low, high, probe.seeds, (probe.id, *probe.runs), devices)
