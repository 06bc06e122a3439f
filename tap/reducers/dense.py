"""No pruning: the reference of every table."""

from __future__ import annotations

from dataclasses import replace

from tap.method_facts import Method, Row
from tap.reducers.base import Reducer, ReducerSettings
from tap.reducers.registry import register

METHOD = Method(readout="complete")
ROW = Row("No pruning", tasks=("cls", "seg", "det"), order=0, in_paper=True)


@register(METHOD)
class Dense(Reducer):
    """Runs every block on every patch."""

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(replace(settings, keep_rate=1.0))
