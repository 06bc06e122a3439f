"""`tab:matching-ablation`: which retained patch stands in for a removed one."""

from __future__ import annotations

from tap.controls.policies import ENDPOINTS, MATCHINGS
from tap.paper.evidence import Evidence
from tap.paper.tables.control_rows import controlled, identity, row_of
from tap.paper.tables.table import BEHIND, Cells, Content, Head, Table, known
from tap.paper.tables.task_columns import task_columns
from tap.task_facts import DENSE_TASKS

READS = "controls"


def cells(evidence: Evidence) -> Cells:
    """Scores with every rule at the learned scale, and what each loses against key cosine."""
    found: dict[tuple[str, str], Content | None] = {}
    for task, behind, results, metric in controlled(evidence, DENSE_TASKS):
        for rule in MATCHINGS:
            name = f"matching_{rule}_learned"
            found[f"{rule}{behind}", task] = results.value(name, metric)
            found[f"{rule}{behind}", f"{task}_delta"] = results.difference(name, "matching_key_learned", metric)
    return known(found)


def note(evidence: Evidence) -> str:
    """That selected sets and allocations are the same in all rows, by their hashes."""
    names = [f"matching_{rule}_{endpoint}" for rule in MATCHINGS for endpoint in ENDPOINTS]
    parts = []
    for task, behind, results, _ in controlled(evidence, DENSE_TASKS):
        digests = results.digests(names)
        same = f"one hash, {min(digests)[:12]}" if len(digests) == 1 else f"{len(digests)} hashes, which must be one"
        parts.append(f"{task} TAP-{'J' if behind else 'F'}: {same}")
    held = f"Selected sets and allocations of all rules and scales have {'; '.join(parts)}. " if parts else ""
    return f"{held}{identity(evidence, DENSE_TASKS)}"


TABLE = Table(
    "Stand-in rules at the main keep rate with the learned scale, TAP-F; changes from key cosine with pointer chains,",
    tuple(Head(task.title(), (task, f"{task}_delta"), BEHIND) for task in DENSE_TASKS),
    cells,
    columns=(*task_columns(DENSE_TASKS), *task_columns(DENSE_TASKS, "delta", "points")),
    note=note,
    row=row_of("tab:matching-ablation"),
)
