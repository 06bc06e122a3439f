"""The whole of a deep verification: hashes first, then values from what they rest on, then images from weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tap.config.scale import ScaleConfig
from tap.paper.deep.outcome import Outcome
from tap.paper.deep.reevaluation import Sample, reevaluate
from tap.paper.deep.rows import check_rows
from tap.paper.deep.scores import check_probes, check_runs
from tap.paper.deep.searches import check_searches
from tap.paper.deep.settings import check_settings
from tap.paper.deep.tables import check_copies, check_tables_and_figures
from tap.paper.deep.verdicts import check_verdicts
from tap.paper.deep.view import as_project
from tap.paper.statistics import kept_replicates
from tap.provenance.finding import Kind
from tap.provenance.ledger import Ledger, Record
from tap.provenance.verify import Verification


def verify_deeply(
    cfg: ScaleConfig,
    verified: Verification,
    sample: Sample,
    say: Callable[[str], object] = lambda text: None,
    progress: Callable[[list[Record]], Iterator[Record]] = iter,
) -> Outcome:
    """Makes anew what the results of a scale state, and compares.

    Args:
        cfg: settings of the scale.
        verified: what the comparison with the records found; no file of it has to be right.
        sample: the images that are evaluated anew.
        say: told what begins.
        progress: shows how far the evaluations are.

    Returns:
        What was compared, what differs, and what could not be compared.
    """
    scale = cfg.scale
    stale = {finding.record for finding in verified.findings if finding.kind == Kind.STALE}
    untrusted = {finding.path for finding in verified.findings if finding.kind in (Kind.EDITED, Kind.UNKNOWN)}
    parts: dict[str, Callable[[Ledger], Outcome]] = {
        "scores from single images": check_runs,
        "probes from single images": check_probes,
        "searches from scores of candidates": lambda ledger: check_searches(cfg, ledger, stale),
        "rows from scores": lambda ledger: check_rows(scale, ledger, stale),
        "settings of tables from those of runs": lambda ledger: check_settings(cfg, ledger, stale),
        "tables and figures, with every interval": lambda ledger: check_tables_and_figures(scale, ledger, stale),
        "published copies": check_copies,
        "verdicts": lambda ledger: check_verdicts(scale, ledger, stale, untrusted),
        "images from weights": lambda ledger: reevaluate(cfg, ledger, sample, progress),
    }
    outcome = Outcome()
    with as_project(scale, verified.ledger) as ledger, kept_replicates():
        for what, check in parts.items():
            say(what)
            outcome.join(check(ledger))
    records = verified.ledger.records
    outcome.set_aside({file for name in stale & records.keys() for file in records[name].outputs})
    return outcome
