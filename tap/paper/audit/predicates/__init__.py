"""Predicates by the name that a claim calls them by.

A predicate is a function from the evidence and the claim's arguments to an `Outcome`. Names say what holds if the claim
is supported.
"""

from __future__ import annotations

from collections.abc import Callable

from tap.paper.audit.outcome import Outcome
from tap.paper.audit.predicates.costs import added_parameters, between, exact_count
from tap.paper.audit.predicates.probes import (
    best_is_poor_elsewhere,
    drops_more,
    gap_shrinks,
    prefers_endpoint,
    rankings_oppose,
    ranks_at,
)
from tap.paper.audit.predicates.scores import ahead_of_all, deviation_at_most, higher, loses_at_most, value
from tap.paper.audit.predicates.speeds import controller_share, faster, less_memory, speed, speed_gain

Predicate = Callable[..., Outcome]

PREDICATES: dict[str, Predicate] = {
    predicate.__name__: predicate
    for predicate in (
        higher,
        ahead_of_all,
        loses_at_most,
        value,
        deviation_at_most,
        faster,
        speed_gain,
        speed,
        controller_share,
        less_memory,
        between,
        exact_count,
        added_parameters,
        drops_more,
        gap_shrinks,
        rankings_oppose,
        ranks_at,
        best_is_poor_elsewhere,
        prefers_endpoint,
    )
}

OF_LEARNING = tuple(
    predicate.__name__ for predicate in (higher, ahead_of_all, loses_at_most, value, deviation_at_most, between)
)
"""Predicates about what training has made of a method. Without a register that learned they tell nothing of TAP;
counts, costs and speeds are what they are whatever a register ranks."""
OF_PROBES = tuple(
    predicate.__name__
    for predicate in (drops_more, gap_shrinks, rankings_oppose, ranks_at, best_is_poor_elsewhere, prefers_endpoint)
)
"""Predicates about what a trained encoder makes of a criterion: they need a task on which training it matters."""
