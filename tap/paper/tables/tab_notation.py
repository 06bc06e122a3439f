"""`tab:notation`: the paper's symbols in this project's words, and the code that each of them is."""

from __future__ import annotations

from typing import Final

from tap.paper.evidence import Evidence
from tap.paper.reported import Column
from tap.paper.tables.table import Cells, Head, Table, stated

READS = "settings"

SYMBOLS: Final = {
    "task": ("task whose register is in the sequence, and all tasks", "one of the set", "spec.task"),
    "depth": ("blocks, pruning blocks, how many of these", "ascending block numbers from 1", "ReducerSettings.layers"),
    "patches": ("patches that enter a block, and their number", "N_l rows of width d", "tap.encoder.tokens.Tokens"),
    "register": ("state of the register of the task", "d numbers", "tap.core.register.Controller"),
    "score": ("score of a patch against the register", "a real number", "tap.core.selection.register_scores"),
    "budget": (
        "keep rate, patches kept in the end, patches to remove",
        "in (0, 1]; from 1; from 0",
        "tap.core.budget.keep_count",
    ),
    "remaining": ("what is left to remove, and the most that a block can", "from 0", "tap.core.budget.allocate"),
    "proposal": ("proposed share of that in patches, and the integer", "from 0", "tap.core.budget.settle_proposal"),
    "target": (
        "what the soft mask removes in training",
        "between 0 and N_l - 1",
        "tap.core.budget.Allocation.target",
    ),
    "sets": ("patches that stay and that go", "parts of the current indices", "tap.core.selection.select"),
    "pointers": ("stand-in at removal, and the survivor its chain ends at", "patch indices", "tap.core.matching"),
    "offset": ("feature minus stand-in's at removal", "d numbers", "tap.core.recovery.removal_offset"),
    "scale": ("share of the offset that is given back", "in (0, 1)", "Controller.recovery_scale"),
    "mask": (
        "hard keep decision and soft keep probability",
        "0 or 1; in (0, 1)",
        "tap.core.straight_through.soft_keep",
    ),
}
"""Meaning, domain, and the definition behind it, by the keys of the paper's rows."""


def cells(evidence: Evidence) -> Cells:
    """Words alone."""
    names = ("meaning", "domain", "code")
    return {
        (row, name): stated(text) for row, texts in SYMBOLS.items() for name, text in zip(names, texts, strict=True)
    }


TABLE = Table(
    "Symbols, what they mean here, and the code that they are",
    (Head("Meaning", ("meaning",), width=0.36), Head("Domain", ("domain",), width=0.2), Head("Code", ("code",))),
    cells,
    scaled=False,
    columns=(Column("code", "Code", "text"),),
)
