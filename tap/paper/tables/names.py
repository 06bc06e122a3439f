"""Which tables there are and what each is made from, known without importing pandas or torch: the workflow reads this.

A table is a file ``tab_<name>.py`` of this folder with a `TABLE` (`tap.paper.tables.table.Table`) and the literal
``READS``, the group of inputs that it needs:

* ``"main"``: the tidy tables of the runs of all tasks' main tables;
* ``"rates"``: these, and those of all tasks' other keep rates and variants;
* ``"profiles"``: profiles of machines alone, as far as there are some;
* ``"probes"``: the tidy tables of the probes, and what tells the floors of the dense tasks;
* ``"controls"``: the controls of trained TAP checkpoints, and what ``"rates"`` reads;
* ``"settings"``: settings and code alone, no run.

Every task has a main table as well, ``tab_<task>``, which no file has to declare (`tap.paper.tables.main_table`); it
reads ``"runs"``, the tidy table of that task. Tables of runs and of rates show profiles, too, where there are some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tap.paper.listing import declared
from tap.plan.growth import GROWTH
from tap.task_facts import TASKS

GROUPS = ("runs", "main", "rates", "profiles", "probes", "controls", "settings")


@cache
def groups() -> dict[str, list[str]]:
    """File stems of all tables by what they are made from; main tables by task, the others by name.

    Raises:
        UserError: a file of the folder does not say what it needs.
    """
    found: dict[str, list[str]] = {group: [] for group in GROUPS}
    found["runs"] = list(main_tables())
    for name, group in declared(Path(__file__).parent, "tab_", GROUPS[1:]).items():
        found[group].append(name)
    return found


def main_tables() -> Mapping[str, str]:
    """The task of every main table, by file stem."""
    return {f"tab_{task}": task for task in TASKS}


def profiled(table: str, tasks: Sequence[str]) -> list[str]:
    """The profiles that a table shows, of those of some tasks.

    Args:
        table: file stem.
        tasks: of the scale.
    """
    if table == "tab_growth":
        return [GROWTH]
    if table in main_tables():
        return [main_tables()[table]]
    return [*tasks] if any(table in groups()[group] for group in ("main", "rates", "profiles")) else []


def names() -> list[str]:
    """File stems of all tables."""
    return [name for group in groups().values() for name in group]
