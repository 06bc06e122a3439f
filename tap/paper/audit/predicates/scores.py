"""Predicates about scores: who is ahead, by how much, and whether a printed value is reached."""

from __future__ import annotations

from tap.config.methods import SCORES
from tap.paper.audit.outcome import Outcome, Verdict, by_interval, combine, not_measured
from tap.paper.evidence import Evidence, reference
from tap.paper.measured import Value
from tap.paper.names import names_of_rows, quantity, task_title
from tap.paper.reported import load_reported


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
    if found.interval is None:
        sentence += " Single images are not known, so there is no interval and nothing is decided."
    return _outcome(evidence, task, metric, by_interval(found.interval, points), sentence, found)


def ahead_of_all(
    evidence: Evidence, *, task: str, metric: str, a: str, label: str, points: float = 0.0, regime: str = "full"
) -> Outcome:
    """Whether `a` is above every other row of a regime in a main table.

    One row that is clearly above `a` contradicts; only all rows of the table, each clearly below, support.

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
    parts = {key: higher(evidence, task=task, metric=metric, a=a, b=key, points=points) for key in others}
    if evidence.value(task, a, metric) is None:
        return not_measured(*evidence.lacking(task, (a,), metric))
    known = {key: part for key, part in parts.items() if part.verdict != Verdict.NOT_MEASURED}
    if not known:
        return not_measured(*(item for part in parts.values() for item in part.missing))
    closest = min(known.values(), key=lambda part: part.value or 0.0)
    texts = [f"{title(key)} {_number(part)}" for key, part in known.items()]
    sentence = f"{title(a)} minus each other row, {task} {metric}: {'; '.join(texts)}."
    if points:
        sentence += f" Each must be above {points:+g}."
    absent = [title(key) for key in others if key not in known]
    if absent:
        sentence += f" Not measured: {', '.join(absent)}."
    sentence += evidence.caveat(task)
    return Outcome(
        combine([part.verdict for part in parts.values()]),
        sentence,
        closest.value,
        closest.low,
        closest.high,
        closest.seeds,
        tuple(dict.fromkeys(run for part in known.values() for run in part.runs)),
        closest.devices,
        tuple(item for part in parts.values() for item in part.missing),
    )


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
    return _outcome(evidence, task, metric, by_interval(found.interval, -bound), sentence, found)


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
    found = evidence.value(task, a, metric) if b is None else evidence.difference(task, a, b, metric)
    if missing or found is None:
        return not_measured(*(missing or [_common_seed(task, metric, a, b)]))
    printed = reference(reported)
    distance = abs(found.mean - float(printed.value or 0))
    what = title(a) if b is None else f"{title(a)} minus {title(b)}"
    sentence = f"{what}, {task} {metric}: {_with_bounds(found)} (paper {printed.text}, within {tolerance:g})."
    verdict = Verdict.SUPPORTED if distance <= tolerance else Verdict.CONTRADICTED
    return _outcome(evidence, task, metric, verdict, sentence, found)


def deviation_at_most(evidence: Evidence, *, task: str, metric: str, a: str, reported: str) -> Outcome:
    """Whether the standard deviation over seeds, as it would be printed, is at most a printed one."""
    found = evidence.value(task, a, metric)
    if found is None:
        return not_measured(*evidence.lacking(task, (a,), metric))
    if found.sd is None:
        return not_measured(f"{quantity(metric)} of {title(a)} on {task_title(task)} with at least two seeds")
    printed = reference(reported)
    sentence = f"{title(a)}, {task} {metric}: SD {found.sd:.3f} over {len(found.seeds)} seeds (at most {printed.text})."
    verdict = Verdict.SUPPORTED if found.sd <= float(printed.high) else Verdict.CONTRADICTED
    return _outcome(evidence, task, metric, verdict, sentence, found)


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
    seeds = len(found.seeds)
    return f"{text} over {seeds} seed{'s' if seeds > 1 else ''}"


def _number(part: Outcome) -> str:
    if part.low is None:
        return f"{part.value:+.2f}"
    return f"{part.value:+.2f} [{part.low:+.2f}, {part.high:+.2f}]"


def _paper(reported: str | None) -> str:
    return "" if reported is None else f" (paper {reference(reported).text})"


def _outcome(evidence: Evidence, task: str, metric: str, verdict: Verdict, sentence: str, found: Value) -> Outcome:
    bounds = (None, None) if found.interval is None else (found.interval.low, found.interval.high)
    devices = evidence.devices(found.runs)
    if metric in SCORES[task]:
        sentence += evidence.caveat(task)
    return Outcome(verdict, sentence, found.mean, *bounds, found.seeds, found.runs, devices)
