"""Which runs have a register that did not learn: their results say nothing of a register's decisions.

An evaluation measures how the ranking of a trained register agrees with those of fresh ones and of the register that a
training began with (`tap.studies.register_diagnostics`). Where it agrees with fresh ones, the choice is that of the
query projection, and whatever the run scores, another register would have scored as well. Fresh ones need not agree
with each other, so a register that hardly moved is found by its own start, be it a draw or the class token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tap.config.methods import WITH_REGISTER
from tap.paper.evidence import Evidence

LEARNED_BELOW: Final = 0.98
"""Rank correlation with fresh registers, or with its own start, above which a register has not learned to rank."""

CORRELATION, DISTANCE = "register_fresh_correlation", "register_distance"
START_CORRELATION = "register_start_correlation"


def unlearned(evidence: Evidence, runs: Iterable[str]) -> dict[str, str]:
    """The runs among some whose register did not learn, each with the reason in a few words.

    Args:
        evidence: the results.
        runs: ids of any runs; those without a register, or without the diagnostics, are passed over.
    """
    found = {}
    for run in dict.fromkeys(runs):
        task, _, rest = run.partition("/")
        if rest.partition("/")[0] not in WITH_REGISTER or task not in evidence.settings.tasks:
            continue
        known = evidence.measured(task).of_run(run)
        if known.get(CORRELATION, -1.0) > LEARNED_BELOW:
            found[run] = f"ranks as fresh registers do, correlation {known[CORRELATION]:.3f}"
        elif known.get(DISTANCE) == 0.0:
            found[run] = "has not moved from its start"
        elif known.get(START_CORRELATION, -1.0) > LEARNED_BELOW:
            found[run] = f"ranks as its start does, correlation {known[START_CORRELATION]:.3f}"
    return found


def learning_note(evidence: Evidence, runs: Iterable[str]) -> str:
    """A sentence that marks the runs behind a table whose register did not learn; empty where all did."""
    found = unlearned(evidence, runs)
    if not found:
        return ""
    return f"Register did not learn: {'; '.join(f'{run} ({why})' for run, why in found.items())}."
