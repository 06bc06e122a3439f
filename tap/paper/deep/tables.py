"""Tables and figures, built anew, and the published copies of both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from tap.paper.deep.outcome import Outcome
from tap.paper.deep.scores import by_job, place_of
from tap.paper.deep.settings import with_recorded_settings
from tap.paper.deep.texts import number_differences, text_differences
from tap.paper.difference import Difference
from tap.paper.evidence import Evidence
from tap.paper.figures.build import render_figure
from tap.paper.tables.build import render_table
from tap.provenance.files import sha256_file
from tap.provenance.fingerprint import version
from tap.provenance.ledger import Ledger, Record

FILES, COPIES = "files of tables and figures", "published copies"
_RENDER: Final[dict[str, Callable[[str, Evidence], dict[str, bytes]]]] = {
    "table": render_table,
    "figure": render_figure,
}
_DRAWN: Final = (".png", ".pdf", ".svg")


def check_tables_and_figures(scale: str, ledger: Ledger, stale: Collection[str]) -> Outcome:
    """Every file of every table and figure, from the tidy tables and the values of single images.

    Of those that other code made only the numbers are compared: today's code may word and draw them differently.

    Args:
        scale: whose.
        ledger: the records.
        stale: names of records that today's code or settings would not give.
    """
    outcome, evidence = Outcome(), Evidence(scale, ledger.root)
    for record in by_job(ledger, *_RENDER):
        with outcome.following(record.name):
            name = str(record.content["parameters"][record.job])
            made = _RENDER[record.job](name, with_recorded_settings(evidence, record))
            anew = {f"{name}{suffix}": content for suffix, content in made.items()}
            for file in record.outputs:
                if Path(file).name in anew:
                    _compare(outcome, file, place_of(ledger, file), anew[Path(file).name], record, record.name in stale)
                else:
                    outcome.add(FILES, 1, [Difference(file, "file", "is there", "none of that name")])
    return outcome


def check_copies(ledger: Ledger) -> Outcome:
    """Every file where a reader looks, against the one that it is a copy of."""
    outcome = Outcome()
    for record in by_job(ledger, "publish"):
        with outcome.following(record.name):
            originals = {Path(name).name: name for name in record.inputs}
            for file in record.outputs:
                pair = [sha256_file(place_of(ledger, name)) for name in (file, originals[Path(file).name])]
                found = [Difference(file, "sha256", *pair)] if pair[0] != pair[1] else []
                outcome.add(COPIES, 1, found)
    return outcome


def _compare(outcome: Outcome, file: str, recorded: Path, recomputed: bytes, record: Record, stale: bool) -> None:
    """One file beside the one that was made anew."""
    pair = [sha256_file(recorded), hashlib.sha256(recomputed).hexdigest()]
    if pair[0] == pair[1]:
        outcome.add(FILES, 1)
    elif file.endswith(_DRAWN):
        reason = "made by other code" if stale else _other_versions(record)
        if reason:
            outcome.notes.append(f"{file}: drawings not compared: {reason}")
        else:
            outcome.add(FILES, 1, [Difference(file, "sha256", *pair)])
    else:
        texts = (recorded.read_text(encoding="utf-8"), recomputed.decode())
        outcome.add(FILES, 1, number_differences(file, *texts) if stale else text_differences(file, *texts))


def _other_versions(record: Record) -> str:
    """Which libraries are not those that drew a figure, in words; empty if all are."""
    drawn = {name: text for name, text in record.content["versions"].items() if name != "python"}
    others = [f"{name} {text}, here {version(name)}" for name, text in drawn.items() if text != version(name)]
    return f"drawn by {'; '.join(others)}" if others else ""
