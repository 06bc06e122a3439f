"""Predicates about speed and memory, which profiles tell: judged at the paper's shapes, speeds on a GPU only."""

from __future__ import annotations

from tap.config.methods import DENSE
from tap.paper.audit.outcome import Outcome, Verdict, not_measured
from tap.paper.audit.predicates.scores import title
from tap.paper.evidence import Evidence, reference
from tap.paper.measured import Value
from tap.paper.names import quantity, task_title
from tap.paper.profiles import Profile
from tap.paper.statistics import Interval


def faster(evidence: Evidence, *, task: str, a: str, metric: str = "encoder_speedup", above: float = 1.0) -> Outcome:
    """Whether the whole interval of a speed-up over the rounds of a profile is above a threshold, beyond its noise.

    The noise is what the dense encoder shows against itself in the same way of measuring: its ratio should be 1.

    Args:
        evidence: the results.
        task: cls, seg or det.
        a: selector.
        metric: the ratio to the dense model of the same process.
        above: threshold.
    """
    profile, found = _measured(evidence, task, a, metric)
    if profile is None or found is None:
        return _lacking(task, a, metric)
    ratio = _interval(found)
    dense = profile.value(DENSE, "encoder_speedup")
    noise = 0.0 if dense is None else abs(dense.mean - 1.0)
    verdict = Verdict.INCONCLUSIVE
    if ratio.low > above * (1 + noise):
        verdict = Verdict.SUPPORTED
    elif ratio.high < above * (1 - noise):
        verdict = Verdict.CONTRADICTED
    sentence = (
        f"{title(a)}, {task} {metric}: {_shown(ratio)}; the dense encoder against itself is off by {100 * noise:.1f} %."
    )
    return _judged(profile, verdict, sentence, ratio)


def speed_gain(
    evidence: Evidence,
    *,
    task: str,
    a: str,
    b: str,
    metric: str = "encoder_speedup",
    least: str | None = None,
    most: str | None = None,
    tolerance: float = 0.0,
) -> Outcome:
    """By how many percent `a` is faster than `b`: at all, beyond both intervals, or as much as is printed.

    Args:
        evidence: the results.
        task: cls, seg or det.
        a: selector of the one that is claimed to be faster.
        b: selector of the other.
        metric: the ratio to the dense model of their process.
        least: address of the smallest printed gain; without it any gain that the intervals settle will do.
        most: address of the largest printed gain.
        tolerance: percent by which a gain may lie beyond the printed ones.
    """
    profile, ours = _measured(evidence, task, a, metric)
    _, theirs = _measured(evidence, task, b, metric)
    if profile is None or ours is None or theirs is None:
        return _lacking(task, a if ours is None else b, metric)
    first, second = _interval(ours), _interval(theirs)
    gain = Interval(
        *(
            100 * (x / y - 1)
            for x, y in ((first.estimate, second.estimate), (first.low, second.high), (first.high, second.low))
        )
    )
    sentence = (
        f"{title(a)} against {title(b)}, {task} {metric}: {gain.estimate:+.1f} % [{gain.low:+.1f}, {gain.high:+.1f}]"
    )
    if least is None:
        verdict = {1: Verdict.SUPPORTED, 0: Verdict.INCONCLUSIVE, -1: Verdict.CONTRADICTED}[gain.sign]
        return _judged(profile, verdict, f"{sentence}.", gain)
    low, high = (float(reference(name).value or 0) for name in (least, most or least))
    inside = low - tolerance <= gain.estimate <= high + tolerance
    verdict = Verdict.SUPPORTED if inside else Verdict.CONTRADICTED
    return _judged(profile, verdict, f"{sentence}; paper {low:g} to {high:g} %, within {tolerance:g}.", gain)


def speed(
    evidence: Evidence, *, task: str, a: str, reported: str, tolerance: float, metric: str = "encoder_speedup"
) -> Outcome:
    """Whether a speed-up is the printed one, within a tolerance."""
    profile, found = _measured(evidence, task, a, metric)
    if profile is None or found is None:
        return _lacking(task, a, metric)
    ratio, printed = _interval(found), reference(reported)
    inside = float(printed.low) - tolerance <= ratio.estimate <= float(printed.high) + tolerance
    sentence = f"{title(a)}, {task} {metric}: {_shown(ratio)} (paper {printed.text}, within {tolerance:g})."
    return _judged(profile, Verdict.SUPPORTED if inside else Verdict.CONTRADICTED, sentence, ratio)


def controller_share(evidence: Evidence, *, task: str, reported: str, factor: float = 1.0) -> Outcome:
    """Whether register, readouts and ranking take at most `factor` times the printed percent of a pass."""
    profile = evidence.profile(task, evidence.profiled_shapes)
    parts = [None if profile is None else profile.component(name, "percent") for name in ("register", "ranking")]
    if profile is None or None in parts:
        return _lacking(task, "tap", "components")
    share, printed = sum(part.mean for part in parts if part is not None), reference(reported)
    bound = factor * float(printed.high)
    sentence = f"Controller, {task}: {share:.3g} % of a pass (paper {printed.text}; at most {bound:.3g})."
    return _judged(
        profile,
        Verdict.SUPPORTED if share <= bound else Verdict.CONTRADICTED,
        sentence,
        Interval(share, share, share),
    )


def less_memory(evidence: Evidence, *, task: str, a: str, b: str = DENSE) -> Outcome:
    """Whether the peak memory of `a` is below that of `b`, as the allocator of the profile's machine counts it."""
    (profile, ours), (_, theirs) = (_measured(evidence, task, name, "peak_gb") for name in (a, b))
    if profile is None or ours is None or theirs is None:
        return _lacking(task, a if ours is None else b, "peak_gb")
    change = 100 * (ours.mean / theirs.mean - 1)
    verdict = Verdict.SUPPORTED if change < 0 else Verdict.CONTRADICTED
    sentence = f"{title(a)} against {title(b)}, {task} peak memory at batch 1: {change:+.1f} %."
    return Outcome(verdict, sentence, change, runs=ours.runs, devices=(profile.device,))


def _measured(evidence: Evidence, task: str, selector: str, metric: str) -> tuple[Profile | None, Value | None]:
    profile = evidence.profile(task, evidence.profiled_shapes)
    return profile, None if profile is None else profile.value(selector, metric)


def _lacking(task: str, selector: str, what: str) -> Outcome:
    return not_measured(f"{quantity(what)} of {title(selector)} on {task_title(task)}, which `snakemake profile` tells")


def _judged(profile: Profile, verdict: Verdict, sentence: str, found: Interval) -> Outcome:
    """The verdict, where the machine is one that the paper's speeds can be compared with and was left alone."""
    if not profile.on_gpu:
        verdict = Verdict.NOT_COMPARABLE
        sentence = f"Speeds are judged on a GPU only; on {profile.device}: {sentence}"
    elif profile.disturbed:
        verdict = Verdict.INCONCLUSIVE
        sentence = f"Another load disturbed the measurement. {sentence}"
    runs, devices = (profile.id,), (profile.device,)
    return Outcome(verdict, sentence, found.estimate, found.low, found.high, (), runs, devices)


def _interval(value: Value) -> Interval:
    return Interval(value.mean, value.mean, value.mean) if value.interval is None else value.interval


def _shown(ratio: Interval) -> str:
    return f"x{ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"
