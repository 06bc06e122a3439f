"""No pruning: the reference of every table."""

from __future__ import annotations

from dataclasses import replace

from timm.models.vision_transformer import Block

from tap.encoder.blocks import run_block
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.method_facts import Method, Row
from tap.reducers.base import Reducer, ReducerSettings
from tap.reducers.costs import Cost
from tap.reducers.registry import register

METHOD = Method(readout="complete")
ROW = Row("No pruning", tasks="all", order=0, in_paper=True)


@register(METHOD)
class Dense(Reducer):
    """Runs every block on every patch."""

    def __init__(self, settings: ReducerSettings) -> None:
        super().__init__(replace(settings, keep_rate=1.0))

    def run_block(self, layer: int, block: Block, tokens: Tokens, state: ForwardState) -> Tokens:
        """timm's own block, so that the reference is the model as everybody else runs it."""
        return run_block(block, tokens, as_timm=True)


COST = Cost("end")
