"""Variants of runs as data: each ablation is one entry of `VARIANTS`.

A variant is a training with other settings than the run that it is a variant of. These are parameters of its jobs: an
entry more, or another value in one, repeats exactly its own runs. Names are the row keys of the paper's tables. What
changes a trained checkpoint and trains nothing is a control (`tap.controls`), all of which share one job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tap.config.methods import TAP, TAP_F
from tap.task_facts import TASKS

_SHARED_ADAPTER: Final = {"options.tap_f.adapters_of": "shared"}

JOINT_STARTS: Final = {"own": "start", "shared": "shared-adapter-start"}
"""Variants at keep rate 1 that joint trainings go on from, by who owns the low-rank updates."""


@dataclass(frozen=True)
class Variant:
    """One change of a run.

    Attributes:
        about: what the change is, in words.
        changes: values by the dotted names of `JobSpec`.
        methods: methods that have the variant.
        tasks: tasks that have it.
        rates: keep rates at which it is made; empty is the main rate.
    """

    about: str
    changes: Mapping[str, Any]
    methods: tuple[str, ...] = (TAP,)
    tasks: tuple[str, ...] = tuple(TASKS)
    rates: tuple[float, ...] = ()


_INDEPENDENT: Final = {"controller.estimator": "independent"}

VARIANTS: Final[Mapping[str, Variant]] = {
    "no_gumbel": Variant("no Gumbel noise on the training scores", {"controller.gumbel": False}, (TAP_F,)),
    "fixed_tau": Variant(
        "temperature 1 from start to end", {"controller.tau_start": 1.0, "controller.tau_end": 1.0}, (TAP_F,)
    ),
    "independent": Variant("independent gates with a rate loss; counts vary", _INDEPENDENT, (TAP_F,)),
    "hard_only": Variant("hard selection, no surrogate gradient", {"controller.estimator": "hard"}, (TAP_F,)),
    "attention_selection": Variant(
        "incoming attention ranks the patches", {"controller.selection": "attention"}, (TAP_F,)
    ),
    "static_query": Variant(
        "the initial register ranks the patches at every block", {"controller.selection": "initial"}, (TAP_F,)
    ),
    "shared_register": Variant("one register for all tasks", {"options.tap_f.register_of": "shared"}, (TAP_F,)),
    "own_shared": Variant("one set of low-rank updates for all tasks", dict(_SHARED_ADAPTER), (TAP_F,)),
    "shared_shared": Variant(
        "one register and one set of low-rank updates for all tasks",
        {"options.tap_f.register_of": "shared", **_SHARED_ADAPTER},
        (TAP_F,),
    ),
}
"""By name. `variants` of a scale says which of them it makes."""

COUNTS_VARY: Final = frozenset(
    name for name, variant in VARIANTS.items() if _INDEPENDENT.items() <= variant.changes.items()
)
"""Variants that give up the exact count, which is what they are compared for."""


def changes_of(variant: str) -> Mapping[str, Any]:
    """What a variant, or a start of joint trainings, changes; nothing for the main one."""
    if variant == JOINT_STARTS["shared"]:
        return _SHARED_ADAPTER
    return VARIANTS[variant].changes if variant in VARIANTS else {}


def variants_of(task: str, method: str) -> tuple[str, ...]:
    """Names of the variants that a method of a task has."""
    return tuple(name for name, known in VARIANTS.items() if method in known.methods and task in known.tasks)
