"""Whether what was measured tests a claim at all, asked before any threshold is looked at.

A score of a task that a random encoder does as well, of a register that has not learned, of a training that has hardly
begun or of another number of tokens is no evidence for or against what the paper says of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tap.config.load import load_scale
from tap.config.methods import DENSE, SCORES
from tap.config.scale import ScaleConfig
from tap.core.budget import keep_count
from tap.errors import UserError
from tap.paper.evidence import Evidence
from tap.paper.learned import learning_note
from tap.plan.estimate import steps_of
from tap.plan.specs import job_spec
from tap.runs import Run

LEAST_UPDATES: Final = 0.1
"""Share of the paper's updates below which a run says nothing of how something trains."""
TOKENS_OFF: Final = 0.02
"""Largest distance from K, as a share of it, at which a score counts as one of that budget."""


def not_comparable(
    evidence: Evidence, tasks: Iterable[str], metrics: Iterable[str], runs: Iterable[str], training: bool = False
) -> str:
    """Why measurements do not test a claim, in sentences; empty if they do.

    Args:
        evidence: the results.
        tasks: whose scores are compared.
        metrics: what is compared; floors and token counts concern scores only.
        runs: behind the numbers.
        training: whether the claim is about how something trains.
    """
    runs, metrics = tuple(runs), set(metrics)
    scored = [task for task in tasks if metrics & set(SCORES[task])]
    found = [evidence.below_floor(task) for task in scored]
    found.append(learning_note(evidence, runs))
    if scored:
        found += [off_budget(evidence, run) for run in runs]
    if training:
        found += [too_short(evidence, run) for run in runs]
    return " ".join(dict.fromkeys(text for text in found if text))


def off_budget(evidence: Evidence, run: str) -> str:
    """That a run leaves another number of patches than its rate says, as a sentence; empty if it does not."""
    parsed = _parsed(evidence, run)
    if parsed is None or parsed.method == DENSE:
        return ""
    known = evidence.measured(parsed.task).of_run(run)
    if not {"patches", "final_tokens_mean"} <= known.keys():
        return ""
    exact, kept = keep_count(round(known["patches"]), parsed.rate), known["final_tokens_mean"]
    if abs(kept - exact) <= TOKENS_OFF * exact:
        return ""
    return f"{run} leaves {kept:.1f} patches for {exact}, more than {TOKENS_OFF:.0%} off."


def too_short(evidence: Evidence, run: str) -> str:
    """That a run had too few updates, as a sentence; empty if it had enough, or if that is not known."""
    parsed = _parsed(evidence, run)
    if parsed is None:
        return ""
    steps = _updates(evidence.settings, parsed)
    printed = _updates(load_scale("paper", root=evidence.root), Run("paper", parsed.task, parsed.method, parsed.rate))
    if steps is None or printed is None or steps >= LEAST_UPDATES * printed:
        return ""
    had = f"{parsed.method} on {parsed.task} had {steps:,} updates"
    return f"{had}, less than {LEAST_UPDATES:.0%} of the paper's {printed:,}."


def _updates(cfg: ScaleConfig, run: Run) -> int | None:
    try:
        return steps_of(job_spec(cfg, run))
    except UserError:  # a length in epochs of data of unknown size, or a run that the scale does not have
        return None


def _parsed(evidence: Evidence, run: str) -> Run | None:
    """The run of an id; None for a probe or profile."""
    task = run.partition("/")[0]
    return Run.parse(evidence.scale, run) if task in evidence.settings.tasks else None
