"""Predicates about cost that runs tell: parameters, and the exact number of patches."""

from __future__ import annotations

from dataclasses import replace

from tap.config.variants import COUNTS_VARY
from tap.core.accounting import controller_parameters
from tap.core.budget import keep_count
from tap.paper.audit.decision import above, all_above, over_runs
from tap.paper.audit.outcome import Outcome, Verdict, not_measured
from tap.paper.audit.predicates.scores import title
from tap.paper.evidence import Evidence, reference
from tap.paper.names import quantity, task_title
from tap.runs import Run


def between(
    evidence: Evidence,
    *,
    task: str,
    metric: str,
    a: str,
    low: float | str | None = None,
    high: float | str | None = None,
) -> Outcome:
    """Whether a quantity lies between two bounds in every run, by its t interval over seeds; none inside contradicts.

    Args:
        evidence: the results.
        task: cls, seg or det.
        metric: the quantity.
        a: selector.
        low: lower bound, or the address of a printed number.
        high: upper bound, likewise.
    """
    found = evidence.per_seed(task, a, metric)
    if not found:
        return not_measured(*evidence.lacking(task, (a,), metric))
    bounds = [float(reference(bound).value or 0) if isinstance(bound, str) else bound for bound in (low, high)]
    numbers, runs, value = list(found.values()), tuple(found), over_runs(found)
    sides = {}
    if bounds[0] is not None:
        sides["low"] = above(value, bounds[0], minimum=0.0)
    if bounds[1] is not None:
        sides["high"] = above(over_runs({run: -number for run, number in found.items()}), -bounds[1], minimum=0.0)
    decision = all_above(sides)
    wanted = " and ".join(
        f"{word} {bound:g}" for word, bound in zip(("at least", "at most"), bounds, strict=True) if bound is not None
    )
    sentence = (
        f"{title(a)}, {task} {metric}: {min(numbers):.4g} to {max(numbers):.4g} over {len(runs)} runs ({wanted})."
    )
    sentence += f" {decision.reason}" if decision.reason else ""
    seeds = tuple(Run.parse(evidence.scale, run).seed for run in runs)
    known = value.interval if len(runs) > 1 else None
    low_high = (None, None) if known is None else (known.low, known.high)
    outcome = Outcome(decision.verdict, sentence, value.mean, *low_high, seeds, runs, evidence.devices(runs))
    return replace(outcome, by_seed=tuple(numbers), p=decision.p, reason=decision.reason)


def exact_count(evidence: Evidence, *, task: str, method: str) -> Outcome:
    """Whether every image of every run of a method keeps exactly K patches, at every rate that was measured.

    Variants with independent gates are left out: that their counts vary is what they are there to show.
    """
    wrong, runs, rates = [], [], set()
    for selector in evidence.measured(task).selectors(method):
        rate = float(selector.rpartition("@")[2])
        patches = evidence.per_seed(task, selector, "patches")
        spreads = evidence.per_seed(task, selector, "final_tokens_sd")
        for run, mean in evidence.per_seed(task, selector, "final_tokens_mean").items():
            if run not in patches or run not in spreads or Run.parse(evidence.scale, run).variant in COUNTS_VARY:
                continue
            runs.append(run)
            rates.add(rate)
            exact = keep_count(round(patches[run]), rate)
            if mean != exact or spreads[run] != 0:
                wrong.append(f"{run} keeps {mean:g} with SD {spreads[run]:g}, not {exact}")
    if not runs:
        return not_measured(f"{quantity('final_tokens_mean')} of {title(method)} on {task_title(task)}")
    shown = ", ".join(f"{rate:g}" for rate in sorted(rates))
    if wrong:
        sentence = f"{title(method)} on {task}: {'; '.join(wrong)}."
    else:
        sentence = f"{title(method)} on {task}: exactly K in every image of {len(runs)} runs at rates {shown}."
    verdict = Verdict.CONTRADICTED if wrong else Verdict.SUPPORTED
    devices = evidence.devices(tuple(runs))
    return Outcome(verdict, sentence, float(len(runs)), runs=tuple(runs), devices=devices)


def added_parameters(evidence: Evidence, *, task: str, a: str) -> Outcome:
    """Whether the built model's add-on counts 3d + 2 parameters."""
    found = evidence.value(task, a, "parameters_added")
    if found is None:
        return not_measured(*evidence.lacking(task, (a,), "parameters_added"))
    width = evidence.settings.tasks[task].model.width  # type: ignore[index]
    expected = controller_parameters(width)
    verdict = Verdict.SUPPORTED if found.mean == expected else Verdict.CONTRADICTED
    sentence = f"{title(a)} on {task} adds {found.mean:,.0f} parameters; 3d + 2 is {expected:,} at d = {width}."
    devices = evidence.devices(found.runs)
    return Outcome(verdict, sentence, found.mean, seeds=found.seeds, runs=found.runs, devices=devices)
