"""The data sets of all tasks.

Beside the entries of the tasks, of which a job reads its own: these lists are of all, so no fingerprint follows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tap.task_facts import TASKS, Dataset

DATASETS: Final[Mapping[str, Dataset]] = {data.name: data for facts in TASKS.values() for data in facts.datasets}
"""All data sets by name."""

PREPARED: Final = {data.name: data.preparing for data in DATASETS.values() if data.preparing}
"""Those that the workflow fetches, each with the module whose `prepare` does."""

CHECKED: Final = {data.name: data.checking for data in DATASETS.values() if data.checking}
"""Those that a person brings, each with the module whose `check` looks at them."""
