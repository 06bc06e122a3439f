"""Runs, rows and quantities in words that a stranger knows."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from tap.method_facts import read_methods
from tap.paper.reported import load_reported, reported_labels
from tap.task_facts import METRICS, TASKS

_STAGES: Final = {"mae": "MAE pre-training"}
_PROBES: Final = {"layers": "Probe of every block", "recovery": "Probe of the recovery endpoints"}
_QUANTITIES: Final = {
    "final_tokens_mean": "patches at the end",
    "parameters_added": "added parameters",
    "peak_gb": "peak memory",
    "encoder_speedup": "speed against no pruning",
    "components": "time by component",
    "removal_share": "share of the budget",
    "recovery_scale": "recovery scale",
}
_QUANTITY: Final = re.compile(r"(?P<name>\w+?)(_(?P<block>\d+))?(?P<spread>_sd)?")


def names_of_rows() -> dict[str, str]:
    """Printed names of methods and ablations by their keys."""
    names: dict[str, str] = {}
    for label in ("tab:cls", "tab:seg", "tab:det", "tab:ablation"):
        if label in reported_labels():
            names |= {row.key: row.label for row in load_reported(label).rows}
    return names | {"tap": "TAP-J"}


def title_of(link: str) -> str:
    """A run or probe in words: ``cls/tap/r0.50/main/s0`` is TAP-J on classification; other ids stay as they are.

    Without its last part it is the runs of all seeds.
    """
    parts = link.split("/")
    if parts[0] == "probes" and len(parts) == 3:
        return f"{_PROBES.get(parts[2], parts[2])}, {task_title(parts[1])}"
    if len(parts) not in (4, 5) or parts[0] not in TASKS:
        return link
    task, method, rate, variant, *seed = parts
    name = _titles().get(method, method)
    words = [f"{name}, {task_title(task)}"]
    words += [f"keep rate {float(rate.removeprefix('r')):g}"] if rate != "r1.00" else []
    words += [variant.replace("_", " ").replace("-", " ")] if variant != "main" else []
    words += [f"seed {number.removeprefix('s')}" for number in seed]
    return ", ".join(words)


@cache
def _titles() -> dict[str, str]:
    """Methods in words; read once, since an audit names thousands of runs."""
    return {name: facts.row.title for name, facts in read_methods().items()} | names_of_rows() | _STAGES


def task_title(task: str) -> str:
    """A task within a sentence; one that is not known stays as it is."""
    return TASKS[task].title.lower() if task in TASKS else task


def quantity(metric: str) -> str:
    """What a column of the results holds, within a sentence: ``removal_share_3_sd`` is the spread of a share."""
    if metric in METRICS:
        return METRICS[metric].title
    found = _QUANTITY.fullmatch(metric)
    if found is None:
        return metric
    words = _QUANTITIES.get(metric) or _QUANTITIES.get(found["name"]) or found["name"].replace("_", " ")
    words += f" at block {found['block']}" if found["block"] else ""
    return f"spread of the {words}" if found["spread"] else words
