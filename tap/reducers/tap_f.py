"""TAP-F: TAP on a frozen backbone, adapted by low-rank updates of its own (Sec. TAP-J and TAP-F ownership).

The pruning is TAP's to the letter. What differs is what is trained: the backbone is frozen, its updates, the register
and the head are the task's, and a joint training gives all tasks the same two readouts (`tap.tasks.joint`).
"""

from __future__ import annotations

from typing import Any

from tap.encoder.low_rank import add_low_rank
from tap.method_facts import Method, Row
from tap.reducers.costs import Cost
from tap.reducers.registry import register
from tap.reducers.tap import Tap, register_query

METHOD = Method(readout="learned", frozen=True)
ROW = Row("TAP-F (ours)", tasks="all", order=205, in_paper=True)


@register(METHOD)
class TapF(Tap):
    """TAP with rank-r updates on every linear map of a frozen backbone."""

    @staticmethod
    def prepare_backbone(vit: Any, options: Any) -> None:
        """Freezes the backbone and gives it the task's low-rank updates."""
        add_low_rank(vit, options.rank, options.alpha)


COST = Cost("queries", own=register_query)
