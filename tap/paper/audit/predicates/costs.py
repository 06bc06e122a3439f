"""Predicates about cost: throughput, memory, parameters, and the exact number of patches."""

from __future__ import annotations

import numpy as np

from tap.config.methods import DENSE
from tap.core.accounting import controller_parameters
from tap.core.budget import keep_count
from tap.paper.audit.outcome import Outcome, Verdict, not_measured
from tap.paper.audit.predicates.scores import title
from tap.paper.evidence import Evidence, reference
from tap.runs import Run


def faster(evidence: Evidence, *, task: str, a: str, metric: str = "encoder_speedup", above: float = 1.0) -> Outcome:
    """Whether a throughput ratio is above a threshold for every seed, by more than the measurement's own noise.

    The noise is what the dense encoder shows against itself in the same way of measuring: its ratio should be 1.

    Args:
        evidence: the results.
        task: cls, seg or det.
        a: selector.
        metric: the ratio to the dense model of the same process.
        above: threshold.
    """
    ratios = evidence.per_seed(task, a, metric)
    if not ratios:
        return not_measured(*evidence.lacking(task, (a,), metric))
    dense = evidence.per_seed(task, DENSE, metric)
    noise = max((abs(ratio - 1.0) for ratio in dense.values()), default=None)
    least, most = min(ratios.values()), max(ratios.values())
    if noise is None:
        verdict, known = Verdict.INCONCLUSIVE, "the noise of the measurement is not known"
    else:
        known = f"the dense encoder against itself is off by up to {100 * noise:.1f} %"
        above_noise, below_noise = least > above * (1 + noise), most < above * (1 - noise)
        verdict = Verdict.SUPPORTED if above_noise else Verdict.CONTRADICTED if below_noise else Verdict.INCONCLUSIVE
    runs = tuple(ratios)
    sentence = f"{title(a)}, {task} {metric}: {least:.3f} to {most:.3f} over {len(runs)} seeds; {known}."
    mean = float(np.mean(list(ratios.values())))
    return Outcome(verdict, sentence, mean, least, most, (), runs, evidence.devices(runs))


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
    """By how many percent `a` is faster than `b`: at all, beyond the noise, or as much as is printed.

    Both are known as ratios to the dense model of their process, so the noise of that ratio counts twice.

    Args:
        evidence: the results.
        task: cls, seg or det.
        a: selector of the one that is claimed to be faster.
        b: selector of the other.
        metric: the ratio.
        least: address of the smallest printed gain; without it any gain beyond the noise will do.
        most: address of the largest printed gain.
        tolerance: percent by which a gain may lie beyond the printed ones.
    """
    ours, theirs = (
        {
            Run.parse(evidence.scale, run).seed: (run, ratio)
            for run, ratio in evidence.per_seed(task, name, metric).items()
        }
        for name in (a, b)
    )
    seeds = tuple(sorted(ours.keys() & theirs.keys()))
    if not seeds:
        lacking = evidence.lacking(task, (a, b), metric)
        return not_measured(*(lacking or [f"{metric} of {a} and {b} on {task} with a common seed"]))
    gains = [100 * (ours[seed][1] / theirs[seed][1] - 1) for seed in seeds]
    sentence = (
        f"{title(a)} against {title(b)}, {task} {metric}: {min(gains):+.1f} to {max(gains):+.1f} % over "
        f"{len(seeds)} seeds"
    )
    if least is None:
        dense = evidence.per_seed(task, DENSE, metric)
        noise = max((200 * abs(ratio - 1) for ratio in dense.values()), default=None)
        if noise is None:
            verdict, known = Verdict.INCONCLUSIVE, "the noise of the measurement is not known"
        else:
            known = f"differences of up to {noise:.1f} % are noise"
            above, below = min(gains) > noise, max(gains) < -noise
            verdict = Verdict.SUPPORTED if above else Verdict.CONTRADICTED if below else Verdict.INCONCLUSIVE
    else:
        bounds = [float(reference(name).value or 0) for name in (least, most or least)]
        known = f"paper {bounds[0]:g} to {bounds[1]:g} %, within {tolerance:g}"
        inside = bounds[0] - tolerance <= float(np.mean(gains)) <= bounds[1] + tolerance
        verdict = Verdict.SUPPORTED if inside else Verdict.CONTRADICTED
    runs = tuple(side[seed][0] for seed in seeds for side in (ours, theirs))
    devices = evidence.devices(runs)
    return Outcome(
        verdict, f"{sentence}; {known}.", float(np.mean(gains)), min(gains), max(gains), seeds, runs, devices
    )


def less(evidence: Evidence, *, task: str, metric: str, a: str, b: str = DENSE) -> Outcome:
    """Whether a deterministic cost (peak memory) is lower for `a` than for `b` in every run."""
    ours, theirs = (evidence.per_seed(task, selector, metric) for selector in (a, b))
    if not ours or not theirs:
        return not_measured(*evidence.lacking(task, (a, b), metric))
    change = 100 * (np.mean(list(ours.values())) / np.mean(list(theirs.values())) - 1)
    if max(ours.values()) < min(theirs.values()):
        verdict = Verdict.SUPPORTED
    elif min(ours.values()) >= max(theirs.values()):
        verdict = Verdict.CONTRADICTED
    else:
        verdict = Verdict.INCONCLUSIVE
    runs = (*ours, *theirs)
    sentence = f"{title(a)} against {title(b)}, {task} {metric}: {change:+.1f} %."
    return Outcome(verdict, sentence, float(change), runs=runs, devices=evidence.devices(runs))


def at_most(evidence: Evidence, *, task: str, metric: str, a: str, reported: str, factor: float = 1.0) -> Outcome:
    """Whether a cost stays within `factor` times the printed one."""
    found = evidence.value(task, a, metric)
    if found is None:
        return not_measured(*evidence.lacking(task, (a,), metric))
    printed = reference(reported)
    bound = factor * float(printed.high)
    verdict = Verdict.SUPPORTED if found.mean <= bound else Verdict.CONTRADICTED
    sentence = f"{title(a)}, {task} {metric}: {found.mean:.3g} (paper {printed.text}; at most {bound:.3g})."
    devices = evidence.devices(found.runs)
    return Outcome(verdict, sentence, found.mean, seeds=found.seeds, runs=found.runs, devices=devices)


def between(
    evidence: Evidence,
    *,
    task: str,
    metric: str,
    a: str,
    low: float | str | None = None,
    high: float | str | None = None,
) -> Outcome:
    """Whether a quantity lies between two bounds in every run; all runs outside contradict.

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
    inside = [
        (bounds[0] is None or number >= bounds[0]) and (bounds[1] is None or number <= bounds[1])
        for number in found.values()
    ]
    verdict = Verdict.SUPPORTED if all(inside) else Verdict.INCONCLUSIVE if any(inside) else Verdict.CONTRADICTED
    numbers, runs = list(found.values()), tuple(found)
    wanted = " and ".join(
        f"{word} {bound:g}" for word, bound in zip(("at least", "at most"), bounds, strict=True) if bound is not None
    )
    sentence = (
        f"{title(a)}, {task} {metric}: {min(numbers):.4g} to {max(numbers):.4g} over {len(runs)} runs ({wanted})."
    )
    mean = float(np.mean(numbers))
    return Outcome(verdict, sentence, mean, runs=runs, devices=evidence.devices(runs))


def exact_count(evidence: Evidence, *, task: str, method: str) -> Outcome:
    """Whether every image of every run of a method keeps exactly K patches, at every rate that was measured."""
    wrong, runs, rates = [], [], set()
    for selector in evidence.measured(task).selectors(method):
        rate = float(selector.rpartition("@")[2])
        patches = evidence.per_seed(task, selector, "patches")
        spreads = evidence.per_seed(task, selector, "final_tokens_sd")
        for run, mean in evidence.per_seed(task, selector, "final_tokens_mean").items():
            if run not in patches or run not in spreads:
                continue
            runs.append(run)
            rates.add(rate)
            exact = keep_count(round(patches[run]), rate)
            if mean != exact or spreads[run] != 0:
                wrong.append(f"{run} keeps {mean:g} with SD {spreads[run]:g}, not {exact}")
    if not runs:
        return not_measured(f"final_tokens_mean of results/{evidence.scale}/runs/{task}/{method}")
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
