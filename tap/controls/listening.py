"""Hearing what ranks the patches, without any code of the encoder that knows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from tap.encoder.tokens import Tokens

Heard = Callable[[Any, Tokens, Tensor, Tensor, Tensor], Tensor]
"""Block, patches, normalised states, keys and scores `(B, N)` of a pruning block; gives the scores that are used."""


@contextmanager
def listening(reducer: Any, heard: Heard) -> Iterator[None]:
    """Hands the scores of every pruning block to a function, which may put others in their place.

    An attribute of the instance stands in front of its class's method meanwhile.

    Args:
        reducer: of a TAP model.
        heard: is called at every pruning block.
    """
    rank = reducer.scores

    def listen(block: Any, tokens: Tokens, hidden: Tensor, keys: Tensor, register_rows: Tensor) -> Tensor:
        return heard(block, tokens, hidden, keys, rank(block, tokens, hidden, keys, register_rows))

    reducer.scores = listen
    try:
        yield
    finally:
        del reducer.scores
