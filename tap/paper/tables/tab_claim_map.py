"""`tab:claim-map`: the central claims, and where this project's evidence for each of them lies."""

from __future__ import annotations

from typing import Final

from tap.paper.audit.claim import load_claims
from tap.paper.evidence import Evidence
from tap.paper.tables.table import Cells, Head, Table, stated

READS = "settings"

FIGURES: Final = {
    "Figure 1": "fig_insight",
    "Figure 2": "fig_method",
    "Figure 3": "fig_qual",
    "Figure 4": "fig_tradeoff",
    "Figure 5": "fig_sandwich",
}
"""Figures of the main paper by this project's names."""


def cells(evidence: Evidence) -> Cells:
    """What the claims' own files name: tables and figures, and what judges them."""
    found = {}
    for claim in load_claims():
        if claim.source != "claim-map":
            continue
        tables = [label.replace(":", "_").replace("-", "_") for label in claim.evidence.tables]
        figures = [
            FIGURES[number] for number in FIGURES if any(part.startswith(number) for part in claim.evidence.figures)
        ]
        predicates = dict.fromkeys(part.predicate for part in claim.parts)
        artifacts = [f"tap/paper/claims/{claim.id}.yaml", *claim.evidence.tests]
        found[claim.id, "main"] = stated(", ".join([*figures, *tables]) or "the audit alone")
        found[claim.id, "supplement"] = stated(f"{len(claim.parts)} parts: {', '.join(predicates)}")
        found[claim.id, "artifact"] = stated(", ".join(artifacts))
    return found


TABLE = Table(
    "Central claims: tables and figures of this project, what judges each part, and the files behind it; "
    r"\texttt{snakemake audit} gives the verdicts",
    (
        Head("Evidence", ("main",), width=0.25),
        Head("Judged by", ("supplement",), width=0.2),
        Head("Files", ("artifact",), width=0.3),
    ),
    cells,
    scaled=False,
)
