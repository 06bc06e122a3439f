"""`tab:baseline-provenance`: from the record of each method's origin."""

from __future__ import annotations

from functools import partial

from tap.paper.tables.origins import origins
from tap.paper.tables.table import Head, Table
from tap.task_facts import DENSE_TASKS, TASKS

READS = "settings"

TABLE = Table(
    "Where the classification baselines come from, and what differs from their public code",
    (Head("Source", ("source",), width=0.27), Head("Classification path", ("path",), width=0.5)),
    partial(origins, tasks=tuple(task for task in TASKS if task not in DENSE_TASKS), column="path"),
)
