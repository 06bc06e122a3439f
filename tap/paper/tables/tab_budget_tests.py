"""`tab:budget-tests`: synthetic cases of Algorithm 1, run as the encoder runs it."""

from __future__ import annotations

import torch

from tap.core.budget import keep_count, settle_proposal
from tap.paper.evidence import Evidence
from tap.paper.reported import load_reported
from tap.paper.tables.table import Cells, Content, Head, Table, recomputed, stated

READS = "settings"


def cells(evidence: Evidence) -> Cells:
    """The printed cases (patches, kept, proposals) with what the code makes of them."""
    found: dict[tuple[str, str], Content] = {}
    for row in load_reported("tab:budget-tests").rows:
        patches, kept, proposals = (cell.text if cell is not None else "" for cell in row.cells[:3])
        removals = _removals(int(patches), int(kept), proposals.split(","))
        left = int(patches) - sum(removals)
        exact = "keep all" if not sum(removals) else f"sum = {sum(removals)}"
        found |= {(row.key, "patches"): stated(float(patches)), (row.key, "proposals"): stated(proposals)}
        found[row.key, "kept"] = recomputed(left)
        found[row.key, "removals"] = recomputed(", ".join(map(str, removals)))
        found[row.key, "check"] = recomputed("one survives" if left == 1 else exact)
    return found


def _removals(patches: int, kept: int, proposals: list[str]) -> list[int]:
    present, budget = torch.tensor([patches]), torch.tensor([patches - kept])
    assert keep_count(patches, kept / patches) == kept
    removals = []
    for proposal in proposals:
        if proposal.strip() == "rem.":
            removed, budget = budget, torch.zeros_like(budget)
        else:
            step = settle_proposal(torch.tensor([float(proposal)]), budget, present)
            removed, budget = step.removals, step.remaining
        present = present - removed
        removals.append(int(removed))
    return removals


TABLE = Table(
    "Synthetic cases of the integer allocation, computed by the code that the encoder uses",
    (
        Head("$N_1$", ("patches",)),
        Head("$K$", ("kept",)),
        Head("proposals", ("proposals",)),
        Head("removals", ("removals",)),
        Head("check", ("check",)),
    ),
    cells,
    first=None,
    scaled=False,
)
