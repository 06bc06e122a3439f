"""Variants of runs as data: each ablation is one entry of `VARIANTS`.

A variant changes settings of the run that it is a variant of, and these are parameters of its jobs: an entry more, or
another value in one, repeats exactly its own runs. Names are the row keys of the paper's tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tap.config.methods import TAP


@dataclass(frozen=True)
class Variant:
    """One change of a run.

    Attributes:
        about: what the change is, in words.
        changes: values by the dotted names of `JobSpec`.
        methods: methods that have the variant.
        tasks: tasks that have it.
        rates: keep rates at which it is made; empty is the main rate.
        trained: whether it is trained; else the weights of the `main` run are evaluated with the change.
    """

    about: str
    changes: Mapping[str, Any]
    methods: tuple[str, ...] = (TAP,)
    tasks: tuple[str, ...] = ("cls", "seg", "det")
    rates: tuple[float, ...] = ()
    trained: bool = True


VARIANTS: Final[Mapping[str, Variant]] = {
    "no_gumbel": Variant("no Gumbel noise on the training scores", {"controller.gumbel": False}),
    "fixed_tau": Variant("temperature 1 from start to end", {"controller.tau_start": 1.0, "controller.tau_end": 1.0}),
    "alpha_1": Variant(
        "full offset at every removed position",
        {"recovery.scale": 1.0},
        tasks=("seg", "det"),
        trained=False,
    ),
}
"""By name. `variants` of a scale says which of them it makes."""


def variants_of(task: str, method: str) -> tuple[str, ...]:
    """Names of the variants that a method of a task has."""
    return tuple(name for name, known in VARIANTS.items() if method in known.methods and task in known.tasks)
