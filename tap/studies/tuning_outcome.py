"""What a search of methods' own settings found, from the scores of its candidates to files and words."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from tap.config.methods import DENSE
from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.plan.runs import task_of
from tap.plan.tuning import Candidate, Search, advice, budget_in_words, candidate_spec, rounds_of, searched_seeds
from tap.task_facts import Metric

Scores = Mapping[tuple[str, int, int], float | None]
"""By method, number of the candidate and seed; None where the training diverged."""


def mean_score(candidate: Candidate, seeds: Sequence[int], scores: Scores) -> float | None:
    """Mean over the seeds; None if one of them diverged."""
    found = [score for seed in seeds if (score := scores[candidate.method, candidate.number, seed]) is not None]
    return fmean(found) if len(found) == len(seeds) else None


def gain_of(candidate: Candidate, seeds: Sequence[int], scores: Scores, metric: Metric) -> float:
    """How good a candidate is, whichever way its metric is better; what diverged is worse than anything."""
    score = mean_score(candidate, seeds, scores)
    return -math.inf if score is None else float(metric.gain(score, 0.0))


def best_place(candidates: Sequence[Candidate], seeds: Sequence[int], scores: Scores, metric: Metric) -> int:
    """Place of the best of a method's candidates, of equal ones the first.

    Raises:
        UserError: all of them diverged.
    """
    gains = [gain_of(each, seeds, scores, metric) for each in candidates]
    if max(gains) == -math.inf:
        raise UserError(
            f"tune: every candidate of '{candidates[0].method}' diverged; lower tune.lr_scales, or the optimizer's lr"
        )
    return gains.index(max(gains))


def outcome_of(cfg: ScaleConfig, task: str, search: Search, metric: Metric, scores: Scores) -> dict[str, Any]:
    """The result of a search as JSON values: every method's candidates, and what follows from their scores.

    Args:
        cfg: the scale.
        task: whose search.
        search: which one.
        metric: what the scores are.
        scores: of all its candidates.

    Raises:
        UserError: every candidate of a method diverged.
    """
    rounds, seeds = rounds_of(cfg, task, search), searched_seeds(cfg, task, search)
    methods: dict[str, Any] = {}
    for candidate in (each for candidates in rounds for each in candidates):
        train = candidate_spec(cfg, task, search, candidate, seeds[0]).train
        line = {
            "number": candidate.number,
            "values": candidate.values.model_dump(),
            "text": candidate.text,
            "length": train.length,
            "unit": train.unit,
            "scores": {str(seed): scores[candidate.method, candidate.number, seed] for seed in seeds},
            "mean": mean_score(candidate, seeds, scores),
        }
        methods.setdefault(candidate.method, {"candidates": []})["candidates"].append(line)
    found = {"task": task, "metric": metric.name, "seeds": list(seeds), "methods": methods}
    if search == "options":
        for method, own in methods.items():
            candidates = [each for each in rounds[0] if each.method == method]
            own["best"] = 1 + best_place(candidates, seeds, scores, metric)
        return found
    wanted, reference = task_of(cfg, task).tune.agreement, methods[DENSE]["candidates"]
    gains = [[gain_of(each, seeds, scores, metric) for each in candidates] for candidates in rounds]
    taus = [kendall_tau(shorter, longer) for shorter, longer in pairwise(gains)]
    lengths, settled = [each["length"] for each in reference], first_settled(taus, wanted)
    return found | {
        "unit": reference[0]["unit"],
        "lengths": lengths,
        "agreement_with_next": taus,
        "agreement_wanted": wanted,
        "shortest": None if settled is None else lengths[settled],
    }


def kendall_tau(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Rank correlation (tau-b) of two orders of the same methods; None where one of them orders nothing."""
    from scipy.stats import kendalltau

    found = float(kendalltau(one, other).statistic)
    return None if math.isnan(found) else found


def first_settled(taus: Sequence[float | None], wanted: float) -> int | None:
    """The first length from which every one orders the methods as the next longer one does; None if none does.

    Args:
        taus: agreement of each length with the next.
        wanted: least agreement of two orders that are the same.
    """
    settled = [all(tau is not None and tau >= wanted for tau in taus[place:]) for place in range(len(taus))]
    return settled.index(True) if any(settled) else None


def as_csv(methods: Mapping[str, Any]) -> str:
    """One line for each candidate and seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("method", "candidate", "values", "length", "unit", "seed", "score", "best"))
    for name, found in methods.items():
        for each in found["candidates"]:
            own = [name, each["number"], each["text"], f"{each['length']:g}", each["unit"]]
            best = "yes" if each["number"] == found.get("best") else ""
            for seed, score in each["scores"].items():
                writer.writerow([*own, seed, "diverged" if score is None else score, best])
    return text.getvalue()


def in_words(cfg: ScaleConfig, content: Mapping[str, Any]) -> str:
    """What the job says when it ends.

    Args:
        cfg: the settings in use.
        content: of `outcome_of`.
    """
    task = content["task"]
    if "lengths" in content:
        return f"{task}: {budget_in_words(content)}"
    lines = [f"{task}: best of each method on the calibration split"]
    for name, found in content["methods"].items():
        best = found["candidates"][found["best"] - 1]
        lines.append(f"  {name}: {best['text']} ({content['metric']} {best['mean']:.2f})")
    return "\n".join([*lines, advice(cfg, task, content) or "The settings have all of these."])
