"""No pruning: the reference of every table."""

from __future__ import annotations

from dataclasses import replace

from tap.reducers.base import Reducer, ReducerSettings
from tap.reducers.registry import register


@register
class Dense(Reducer):
    """Runs every block on every patch."""

    name = "dense"
    title = "No pruning"

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(replace(settings, keep_rate=1.0))
