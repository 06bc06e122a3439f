"""Tidy tables and headline numbers, made anew from the runs and probes that their records name."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tap.paper.deep.outcome import Outcome
from tap.paper.deep.scores import by_job, place_of
from tap.paper.deep.texts import text_differences
from tap.paper.difference import Difference
from tap.paper.headline import headline_contents, headline_paths
from tap.paper.tidy import gather
from tap.paper.tidy_probes import gather_probes
from tap.plan.results import PROBES, tidy_path
from tap.provenance.ledger import Ledger
from tap.runs import Run

ROWS, HEADLINES = "rows of tidy tables", "headline files"


def check_rows(scale: str, ledger: Ledger, stale: Collection[str] = ()) -> Outcome:
    """Every row of every tidy table, and the headline numbers.

    Args:
        scale: whose.
        ledger: the records.
        stale: names of records that today's code or settings would not give; all that differs is listed of them.
    """
    outcome = Outcome()
    for record in by_job(ledger, "gather", "gather_probes"):
        with outcome.following(record.name):
            task = str(record.content["parameters"]["task"])
            if record.job == "gather":
                runs = [Run.parse(scale, name) for name in record.content["parameters"]["runs"]]
                path, anew = tidy_path(scale, task), gather(runs, ledger.root, compare=False)
            else:
                path, anew = tidy_path(scale, f"{PROBES}{task}"), gather_probes(scale, task, ledger.root, compare=False)
            outcome.add(
                ROWS,
                len(anew),
                _compared(ledger, path, anew.to_csv(index=False, lineterminator="\n"), record.name in stale),
            )
    for record in by_job(ledger, "headline"):
        with outcome.following(record.name):
            contents = headline_contents(scale, record.content["parameters"]["tasks"], ledger.root)
            for path, text in zip(headline_paths(scale), contents, strict=True):
                outcome.add(HEADLINES, 1, _compared(ledger, path, text, record.name in stale))
    return outcome


def _compared(ledger: Ledger, path: Path, anew: str, everything: bool) -> list[Difference]:
    stated = place_of(ledger, path.as_posix()).read_text(encoding="utf-8")
    return text_differences(path.as_posix(), stated, anew, *((None,) if everything else ()))
