"""The precision of learned scores: half of float32's bits would round neighbours to one score, and so the ranking."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor


def in_type_of_weights(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a scorer's `forward`: autocast does not reach it.

    Its first argument comes in the type of the scorer's weights, which is float32 unless the whole model was cast.
    """

    @wraps(forward)
    def scored(scorer: Any, states: Tensor, *others: Any) -> Any:
        with torch.autocast(states.device.type, enabled=False):
            return forward(scorer, states.to(next(scorer.parameters()).dtype), *others)

    return scored
