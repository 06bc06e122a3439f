"""`tab:criteria`: the criteria of the controlled probes as this project runs them."""

from __future__ import annotations

from tap.config.methods import CRITERIA
from tap.criteria.registry import get
from tap.paper.evidence import Evidence
from tap.paper.tables.table import Cells, Content, Head, Table, stated

READS = "settings"


def cells(evidence: Evidence) -> Cells:
    """The registry's families and rules."""
    found: dict[tuple[str, str], Content] = {}
    for name in CRITERIA:
        criterion = get(name)
        words = criterion.summary.replace(r"$\ell_", "\u2113").replace("$", "")
        found |= {(name, "family"): stated(criterion.family), (name, "rule"): stated(words)}
    return found


TABLE = Table(
    "Criteria of the controlled probes as this project runs them",
    (Head("Family", ("family",)), Head("Rule and input", ("rule",), width=0.5)),
    cells,
    scaled=False,
)
