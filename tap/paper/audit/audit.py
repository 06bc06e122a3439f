"""The audit of a scale: verdicts on all claims, all tables beside the paper, and what was altered since it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tap.paper.audit.beside import TableBeside, tables_beside
from tap.paper.audit.chain import Link, id_of, read_chain, upstream
from tap.paper.audit.claim import Claim, Judgement, load_claims
from tap.paper.audit.outcome import Outcome, Verdict
from tap.paper.audit.searches import Searched, searches_of
from tap.paper.audit.words import Picture, kept_pages, pictures_of
from tap.paper.consistency import findings
from tap.paper.consistency.rule import EXACT, Finding
from tap.paper.evidence import Evidence
from tap.plan.results import PROBES, tidy_path, tidy_paths
from tap.task_facts import TASKS

UNTRUSTED = ("edited", "unknown")
"""Findings that forbid to judge by a file. What is stale was once made honestly; what is missing cannot mislead."""


@dataclass(frozen=True)
class Alteration:
    """A file that is not what its record says.

    Attributes:
        path: the file, relative to the project.
        kind: ``edited``, ``missing``, ``stale`` or ``unknown``.
        reason: why, in words.
        record: the record that is concerned; empty for a file without one.
    """

    path: str
    kind: str
    reason: str
    record: str = ""


@dataclass(frozen=True)
class Audit:
    """Everything that the audit of a scale says.

    Attributes:
        scale: whose results.
        judgements: one for each claim.
        tables: all tables of the paper.
        chain: every run behind a number, and what it was made from, by id.
        alterations: files that are not what their records say.
        paper: where the paper disagrees with itself, or agrees only within rounding.
        consistent: how many recomputed numbers of the paper follow exactly.
        figures: figures of the paper, then pictures of runs.
        kept: title and address of the pages of what methods keep of single images.
        searches: of methods' own settings, task by task.
        replayed: how it was shown that results of earlier code are those of today's, by the record's name.
        root_hash: one hash over all records of the scale, as `tap verify` prints it; empty if it is not asked for.
    """

    scale: str
    judgements: tuple[Judgement, ...]
    tables: tuple[TableBeside, ...]
    chain: Mapping[str, Link]
    alterations: tuple[Alteration, ...]
    paper: tuple[Finding, ...]
    consistent: int
    figures: tuple[Picture, ...]
    kept: tuple[tuple[str, str], ...] = ()
    searches: tuple[Searched, ...] = ()
    replayed: Mapping[str, str] = field(default_factory=dict)
    root_hash: str = ""

    def count(self, verdict: Verdict) -> int:
        """How many claims have a verdict."""
        return sum(judgement.verdict == verdict for judgement in self.judgements)

    @property
    def devices(self) -> tuple[str, ...]:
        """What the evidence was measured on."""
        names = (device for item in self.judgements for outcome in item.outcomes for device in outcome.devices)
        return tuple(dict.fromkeys(names))


def make_audit(
    scale: str,
    root: Path,
    alterations: Iterable[Alteration] = (),
    claims: Iterable[Claim] | None = None,
    replayed: Mapping[str, str] | None = None,
    root_hash: str = "",
) -> Audit:
    """Audits a scale.

    Args:
        scale: smoke, desk or paper.
        root: the project's folder.
        alterations: what a verification of the results found.
        claims: those of `tap/paper/claims` if not given.
        replayed: how replays have shown that results of earlier code are those of today's.
        root_hash: what to show as the hash over all records.

    Raises:
        UserError: results or claims cannot be read.
    """
    alterations = tuple(alterations)
    # What was edited judges nothing, and must not keep the rest from being judged.
    evidence = Evidence(scale, root, compare=not any(item.kind in UNTRUSTED for item in alterations))
    results = root / "results" / scale
    judgements = [claim.judge(evidence) for claim in (load_claims() if claims is None else claims)]
    tables = tables_beside(results / "tables")
    named = {run for item in judgements for outcome in item.outcomes for run in outcome.runs}
    named |= {
        run
        for table in tables
        for line in table.lines
        for _, ours in line.cells
        if ours is not None
        for run in ours.runs
    }
    chain = read_chain(named, scale, root)
    recomputed = findings()
    return Audit(
        scale,
        tuple(_distrusted(item, chain, alterations) for item in judgements),
        tuple(tables),
        chain,
        alterations,
        tuple(item for item in recomputed if item.outcome != EXACT),
        sum(item.outcome == EXACT for item in recomputed),
        pictures_of(results),
        kept_pages(results),
        searches_of(evidence.settings, root, {root / item.path for item in alterations if item.kind in UNTRUSTED}),
        replayed=replayed or {},
        root_hash=root_hash,
    )


def _distrusted(judgement: Judgement, chain: Mapping[str, Link], alterations: tuple[Alteration, ...]) -> Judgement:
    """A claim is not judged by evidence that was edited after it was made, or that no job is known to have made."""
    outcomes = tuple(_without_edited(outcome, judgement.scale, chain, alterations) for outcome in judgement.outcomes)
    if outcomes == judgement.outcomes:
        return judgement
    return replace(judgement, outcomes=outcomes, verdict=judgement.claim.verdict_of(outcomes, judgement.scale))


def _without_edited(
    outcome: Outcome, scale: str, chain: Mapping[str, Link], alterations: tuple[Alteration, ...]
) -> Outcome:
    behind = {link for run in outcome.runs for link in upstream(run, dict(chain))}
    tasks = {run.split("/")[1 if run.startswith("probes/") else 0] for run in outcome.runs}  # none of a profile
    # Tables that predicates read, and what jobs read beside other runs: data (by their record) and endpoints.
    read = {
        path.as_posix()
        for task in TASKS
        if task in tasks
        for path in (*tidy_paths(scale, task), tidy_path(scale, f"{PROBES}{task}"))
    }
    records = (record for link in behind if link in chain for record in chain[link].records.values())
    read |= {name for record in records for name in record.get("inputs", {})}
    edited = [
        item.path
        for item in alterations
        if item.kind in UNTRUSTED and (item.path in read or item.record in read or id_of(item.path, scale) in behind)
    ]
    if not edited:
        return outcome
    sentence = f"Rests on what no job is known to have made like this: {', '.join(edited)}. {outcome.sentence}"
    return replace(outcome, verdict=Verdict.INCONCLUSIVE, sentence=sentence)
