"""`tab:dense-baseline-provenance`: from the record of each method's origin."""

from __future__ import annotations

from functools import partial

from tap.paper.tables.origins import origins
from tap.paper.tables.table import Head, Table
from tap.task_facts import DENSE_TASKS

READS = "settings"

TABLE = Table(
    "Where the baselines of the dense tasks come from, and what differs from their public code",
    (Head("Source", ("source",), width=0.27), Head("Dense readout and adaptation", ("readout",), width=0.5)),
    partial(origins, tasks=DENSE_TASKS, column="readout"),
)
