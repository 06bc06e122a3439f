"""Predicates about scores: who is ahead, by how much, and whether a printed value is reached."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tap.config.methods import SCORES
from tap.paper.audit.comparable import off_budget
from tap.paper.audit.decision import LEAST_SEEDS, Decision, above, all_above, deviation_interval, within
from tap.paper.audit.outcome import Outcome, Verdict, combine, not_measured
from tap.paper.evidence import Evidence, reference
from tap.paper.measured import Value
from tap.paper.names import names_of_rows, quantity, task_title
from tap.paper.reported import load_reported
from tap.paper.tidy import UNITS


def higher(
    evidence: Evidence, *, task: str, metric: str, a: str, b: str, points: float = 0.0, reported: str | None = None
) -> Outcome:
    """Whether `a` scores above `b` by more than `points`, on the same images.

    Args:
        evidence: the results.
        task: cls, seg or det.
        metric: the score.
        a: selector of the one that is claimed to be ahead.
        b: selector of the other.
        points: least lead; negative allows `a` to be behind by as much.
        reported: address of the printed difference.
    """
    missing = evidence.lacking(task, (a, b), metric)
    if missing:
        return not_measured(*missing)
    found = evidence.difference(task, a, b, metric)
    if found is None:
        return not_measured(_common_seed(task, metric, a, b))
    sentence = f"{title(a)} minus {title(b)}, {task} {metric}: {_with_bounds(found)}{_paper(reported)}."
    if points:
        sentence = f"{sentence[:-1]}; the lead must be above {points:+g}."
    printed = None if reported is None else float(reference(reported).value or 0)
    return outcome_of(evidence, task, metric, above(found, points, printed), sentence, found)


def ahead_of_all(
    evidence: Evidence, *, task: str, metric: str, a: str, label: str, points: float = 0.0, regime: str = "full"
) -> Outcome:
    """Whether `a` is above every other row of a regime in a main table.

    One row that is clearly above `a`, for all that were looked at, contradicts; only all rows of the table, each
    clearly below, support. A row that leaves another number of patches is not compared.

    Args:
        evidence: the results.
        task: cls, seg or det.
        metric: the score.
        a: selector of the one that is claimed to be ahead; also its row.
        label: the table whose rows are compared.
        points: as for `higher`.
        regime: which rows count.
    """
    others = [row.key for row in load_reported(label).rows if row.regime == regime and row.key != a]
    parts = {key: _row(evidence, task=task, metric=metric, a=a, b=key, points=points) for key in others}
    if evidence.value(task, a, metric) is None:
        return not_measured(*evidence.lacking(task, (a,), metric))
    known = {key: part for key, part in parts.items() if part.verdict != Verdict.NOT_MEASURED}
    if not known:
        return not_measured(*(item for part in parts.values() for item in part.missing))
    compared = {key: part for key, part in known.items() if part.verdict != Verdict.NOT_COMPARABLE}
    closest = min(known.values(), key=lambda part: part.value or 0.0)
    decision = all_above({key: Decision(part.verdict, part.p, part.reason) for key, part in compared.items()})
    verdicts = [decision.verdict, *(part.verdict for part in parts.values() if part not in compared.values())]
    verdict = combine(verdicts, [True, *[False] * (len(verdicts) - 1)])
    texts = [f"{title(key)} {_number(part)}" for key, part in known.items()]
    sentence = f"{title(a)} minus each other row, {task} {metric}: {'; '.join(texts)}."
    if points:
        sentence += f" Each must be above {points:+g}."
    off = [title(key) for key in known if key not in compared]
    if off:
        sentence += f" Not compared, since they leave another number of patches: {', '.join(off)}."
    absent = [title(key) for key in others if key not in known]
    if absent:
        sentence += f" Not measured: {', '.join(absent)}."
    sentence += evidence.caveat(task)
    return Outcome(
        verdict,
        sentence,
        closest.value,
        closest.low,
        closest.high,
        closest.seeds,
        tuple(dict.fromkeys(run for part in (compared or known).values() for run in part.runs)),
        closest.devices,
        tuple(item for part in parts.values() for item in part.missing),
        closest.by_seed,
        decision.p,
        decision.reason,
    )


def _row(evidence: Evidence, *, task: str, b: str, **arguments: Any) -> Outcome:
    """`higher`, and not comparable where the other row leaves another number of patches."""
    found = higher(evidence, task=task, b=b, **arguments)
    off = any(off_budget(evidence, run) for run in evidence.per_seed(task, b, arguments["metric"]))
    return replace(found, verdict=Verdict.NOT_COMPARABLE, p=None) if off and found.runs else found


def loses_at_most(
    evidence: Evidence, *, task: str, metric: str, a: str, b: str, points: float | str, reported: str | None = None
) -> Outcome:
    """Whether `a` is behind `b` by no more than `points`: an interval on either side of the bound decides.

    `points` may be the address of a printed number, which allows its rounding.
    """
    missing = evidence.lacking(task, (a, b), metric)
    found = evidence.difference(task, a, b, metric)
    if missing or found is None:
        return not_measured(*(missing or [_common_seed(task, metric, a, b)]))
    bound = float(reference(points).high) if isinstance(points, str) else points
    sentence = (
        f"{title(a)} minus {title(b)}, {task} {metric}: {_with_bounds(found)}{_paper(reported)}; "
        f"a loss of at most {bound:g} is claimed."
    )
    printed = None if reported is None else -abs(float(reference(reported).value or 0))
    return outcome_of(evidence, task, metric, above(found, -bound, printed), sentence, found)


def value(
    evidence: Evidence, *, task: str, metric: str, a: str, reported: str, tolerance: float, b: str | None = None
) -> Outcome:
    """Whether a printed value is reached: within `tolerance` of it, in its unit.

    Args:
        evidence: the results.
        task: cls, seg or det.
        metric: what is measured.
        a: selector.
        reported: address of the printed value.
        tolerance: largest distance that counts as the same.
        b: selector of what is subtracted, where the printed value is a difference; for a printed loss, that of the
            method that loses.
    """
    missing = evidence.lacking(task, (a,) if b is None else (a, b), metric)
    found = evidence.estimated(task, a, metric) if b is None else evidence.difference(task, a, b, metric)
    if missing or found is None:
        return not_measured(*(missing or [_common_seed(task, metric, a, b)]))
    printed = reference(reported)
    what = title(a) if b is None else f"{title(a)} minus {title(b)}"
    sentence = f"{what}, {task} {metric}: {_with_bounds(found)} (paper {printed.text}, within {tolerance:g})."
    target = float(printed.value or 0)
    if UNITS.get(metric) == "parameters":  # counted, not measured
        same = abs(found.mean - target) <= tolerance
        decision = Decision(Verdict.SUPPORTED if same else Verdict.CONTRADICTED)
    else:
        decision = within(found, target, tolerance)
    return outcome_of(evidence, task, metric, decision, sentence, found)


def deviation_at_most(evidence: Evidence, *, task: str, metric: str, a: str, reported: str) -> Outcome:
    """Whether the standard deviation over seeds is at most a printed one, by its 95 % interval (chi squared)."""
    found = evidence.value(task, a, metric)
    if found is None:
        return not_measured(*evidence.lacking(task, (a,), metric))
    if found.sd is None:
        return not_measured(f"{quantity(metric)} of {title(a)} on {task_title(task)} with at least two seeds")
    printed = reference(reported)
    bounds, most = deviation_interval(found.sd, len(found.seeds)), float(printed.high)
    sentence = (
        f"{title(a)}, {task} {metric}: SD {found.sd:.3f} [{bounds.low:.3f}, {bounds.high:.3f}] over "
        f"{len(found.seeds)} seeds (at most {printed.text})."
    )
    decision = Decision(Verdict.INCONCLUSIVE, None, "So few seeds leave the standard deviation open.")
    if bounds.high <= most:
        decision = Decision(Verdict.SUPPORTED)
    elif bounds.low > most and len(found.seeds) >= LEAST_SEEDS:
        decision = Decision(Verdict.CONTRADICTED)
    return outcome_of(evidence, task, metric, decision, sentence, found)


def title(selector: str) -> str:
    """A selector as a person reads it."""
    names = names_of_rows()
    head, _, rate = selector.partition("@")
    method, _, variant = head.partition(":")
    text = names.get(method, method)
    if variant:
        text += f" with {names.get(variant, variant.replace('_', ' '))}"
    return f"{text} at {rate}" if rate else text


def _common_seed(task: str, metric: str, a: str, b: str) -> str:
    return f"{quantity(metric)} of {title(a)} and {title(b)} on {task_title(task)} with a common seed"


def _with_bounds(found: Value) -> str:
    text = f"{found.mean:+.2f}" if found.interval is not None else f"{found.mean:.4g}"
    if found.interval is not None:
        text += f" [{found.interval.low:+.2f}, {found.interval.high:+.2f}]"
    return f"{text} over {seeds_in_words(found)}"


def seeds_in_words(found: Value) -> str:
    """How many seeds there are and the value of each, and how many units where these are known."""
    count = len(found.seeds)
    text = f"{count} seed{'s' if count > 1 else ''}"
    if count > 1 and found.by_seed:
        text += f" ({', '.join(f'{value:+.2f}' for value in found.by_seed)})"
    return text if found.precision is None else f"{text} and {found.precision.units:,} units"


def _number(part: Outcome) -> str:
    if part.low is None:
        return f"{part.value:+.2f}"
    return f"{part.value:+.2f} [{part.low:+.2f}, {part.high:+.2f}]"


def _paper(reported: str | None) -> str:
    return "" if reported is None else f" (paper {reference(reported).text})"


def outcome_of(evidence: Evidence, task: str, metric: str, decision: Decision, sentence: str, found: Value) -> Outcome:
    """An outcome from a decision about a number; scores come with the warning of their task."""
    bounds = (None, None) if found.interval is None else (found.interval.low, found.interval.high)
    devices = evidence.devices(found.runs)
    if metric in SCORES[task]:
        sentence += evidence.caveat(task)
    if decision.reason:
        sentence += f" {decision.reason}"
    outcome = Outcome(decision.verdict, sentence, found.mean, *bounds, found.seeds, found.runs, devices)
    return replace(outcome, by_seed=found.by_seed, p=decision.p, reason=decision.reason)
