"""The audit as JSON for programs and as Markdown for people."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tap.paper.audit.audit import Audit
from tap.paper.audit.beside import TableBeside
from tap.paper.audit.claim import Judgement
from tap.paper.audit.outcome import Verdict
from tap.paper.audit.searches import Searched
from tap.paper.consistency.report import show
from tap.paper.tables.caption import SMOKE_NOTE
from tap.paper.tables.table import Status

HOW_TO_READ = {
    Verdict.SUPPORTED: "every part that this scale can judge was measured, and no interval over seeds and "
    "units includes the opposite",
    Verdict.CONTRADICTED: "a part that it needs, or every part that decides anything, is clearly the other way round "
    "in three seeds or more",
    Verdict.INCONCLUSIVE: "intervals include both, parts disagree or are not measured yet, or results are not as a job "
    "made them",
    Verdict.NOT_COMPARABLE: "what was measured does not test it: the task is not above its floor, a register did not "
    "learn, a training was too short, tokens are off the budget, or speeds were taken on another class of device",
    Verdict.NOT_MEASURED: "what it takes has not been made at this scale",
}
MARKS = {
    Verdict.SUPPORTED: "\u2713",
    Verdict.CONTRADICTED: "\u2717",
    Verdict.INCONCLUSIVE: "~",
    Verdict.NOT_COMPARABLE: "\u2260",
    Verdict.NOT_MEASURED: "\u00b7",
}


def to_json(audit: Audit) -> str:
    """Everything but the tables' layout, as JSON."""
    tree = {
        "scale": audit.scale,
        "root_hash": audit.root_hash,
        "devices": list(audit.devices),
        "counts": {str(verdict): audit.count(verdict) for verdict in Verdict},
        "claims": [_claim(judgement) for judgement in audit.judgements],
        "alterations": [asdict(item) for item in audit.alterations],
        "replayed": dict(audit.replayed),
        "searches": [asdict(searched) for searched in audit.searches],
        "tables": {table.label: _counts(table) for table in audit.tables},
        "paper": {
            "consistent": audit.consistent,
            "others": [
                {
                    "rule": item.rule,
                    "where": item.where,
                    "formula": item.formula,
                    "printed": item.printed,
                    "recomputed": show(item.recomputed),
                    "outcome": item.outcome,
                }
                for item in audit.paper
            ],
        },
    }
    return json.dumps(tree, indent=1, ensure_ascii=False) + "\n"


def _counts(table: TableBeside) -> dict[str, int]:
    """Cells by how they are known; what is only stated or recomputed is no measurement."""
    known = {str(status): table.count(status) for status in (Status.MEASURED, Status.RECOMPUTED, Status.STATED)}
    return {**known, "printed": table.printed, "not_in_paper": table.further}


def to_markdown(audit: Audit) -> str:
    """The verdicts with their evidence, as Markdown."""
    lines = [f"# Audit of the paper's claims at {audit.scale} scale", ""]
    if audit.scale == "smoke":
        lines += [f"**{SMOKE_NOTE}**", ""]
    devices = ", ".join(audit.devices) or "nothing measured"
    lines += [f"Measured on: {devices}."]
    if audit.root_hash:
        lines += [f"Root hash of the scale's records: `{audit.root_hash}`."]
    lines += ["", "| verdict | claims | meaning |", "|---|---|---|"]
    lines += [f"| {MARKS[v]} {v} | {audit.count(v)} | {HOW_TO_READ[v]} |" for v in Verdict]
    if audit.alterations:
        lines += ["", "## Files that are not what their records say", ""]
        lines += [f"- `{item.path}`: {item.kind}: {item.reason}" for item in audit.alterations]
    if audit.replayed:
        lines += ["", "## Made by earlier code, and shown by replay to be today's", ""]
        lines += [f"- `{name}`: {how}" for name, how in audit.replayed.items()]
    lines += ["", "## Claims", ""]
    for judgement in audit.judgements:
        lines += _markdown_claim(judgement)
    for searched in audit.searches:
        lines += _markdown_search(searched)
    lines += ["## Where the paper disagrees with itself", ""]
    lines += [
        f"- {item.where}: printed {item.printed}, recomputed {show(item.recomputed)} ({item.outcome}; {item.formula})"
        for item in audit.paper
    ]
    return "\n".join(lines) + "\n"


def _markdown_search(searched: Searched) -> list[str]:
    lines = [f"## {searched.task}: what methods have of their own", ""]
    if searched.methods:
        lines += [
            f"{searched.metric}, on {searched.images} calibration images; seeds {', '.join(map(str, searched.seeds))}.",
            "",
            "| method | candidates | best | in use |",
            "|---|---|---|---|",
        ]
    for method in searched.methods:
        tried = "; ".join(f"{text}: {shown_score(score)}" for text, score in method.candidates)
        lines.append(
            f"| {method.title} | {tried} | {method.candidates[method.best - 1][0]} | "
            f"{'yes' if method.in_use else '**no**'} |"
        )
    return [*lines, *(["", searched.budget] if searched.budget else []), ""]


def shown_score(score: float | None) -> str:
    """The mean score of a candidate in words."""
    return "diverged" if score is None else f"{score:.2f}"


def _markdown_claim(judgement: Judgement) -> list[str]:
    claim = judgement.claim
    lines = [f"### {MARKS[judgement.verdict]} {claim.title} (`{claim.id}`)", ""]
    lines += [f"**{judgement.headline}**. {claim.where}. {', '.join(claim.evidence.tables)}", ""]
    for part, outcome in zip(claim.parts, judgement.outcomes, strict=True):
        runs = f" Runs: {', '.join(outcome.runs)}." if outcome.runs else ""
        needs = " (the claim falls with it)" if part.needed else ""
        lines.append(f"- {MARKS[outcome.verdict]} {outcome.verdict}: {part.says}{needs}. {outcome.sentence}{runs}")
    return [*lines, ""]


def _claim(judgement: Judgement) -> dict[str, Any]:
    claim = judgement.claim
    return {
        "id": claim.id,
        "title": claim.title,
        "source": claim.source,
        "where": claim.where,
        "verdict": str(judgement.verdict),
        "headline": judgement.headline,
        "scale": judgement.scale,
        "evidence": claim.evidence.model_dump(),
        "parts": [
            {
                "says": part.says,
                "predicate": part.predicate,
                "arguments": part.arguments,
                "scales": list(part.scales),
                "verdict": str(outcome.verdict),
                "sentence": outcome.sentence,
                "value": outcome.value,
                "low": outcome.low,
                "high": outcome.high,
                "seeds": list(outcome.seeds),
                "by_seed": list(outcome.by_seed),
                "p": outcome.p,
                "reason": outcome.reason,
                "needed": part.needed,
                "runs": list(outcome.runs),
                "devices": list(outcome.devices),
                "missing": list(outcome.missing),
            }
            for part, outcome in zip(claim.parts, judgement.outcomes, strict=True)
        ],
    }
