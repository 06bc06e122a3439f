"""Criteria that give every patch a number and keep the largest: random, attention and magnitude."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tap.core.noise import stateless_uniform
from tap.core.selection import select
from tap.criteria.base import ProbeInputs, Rule


def largest(score: Callable[[ProbeInputs], Tensor]) -> Rule:
    """The rule that keeps the highest scores, ranked in float32; an exact tie keeps the lower index."""

    def rule(inputs: ProbeInputs, count: int) -> Tensor:
        scores = score(inputs)
        return select(scores, torch.full_like(inputs.sample_ids, scores.shape[1] - count))

    return rule


def random(inputs: ProbeInputs) -> Tensor:
    """A permutation that depends on seed, sample and layer only. ``(B, N)``."""
    return stateless_uniform(inputs.seed, inputs.sample_ids, inputs.layer, inputs.patches)


def l1(vectors: Tensor) -> Tensor:
    """Sum of absolute values. ``(..., d)`` to ``(...)`` float64."""
    return row_sum(vectors.double().abs())


def l2(vectors: Tensor) -> Tensor:
    """Euclidean norm. ``(..., d)`` to ``(...)`` float64."""
    return row_sum(vectors.double().square()).sqrt()


def row_sum(values: Tensor) -> Tensor:
    """Sum over the last dimension in one fixed order of additions.

    Library reductions choose their order by the shape of the whole tensor, so a row's last bits could depend on its
    batch. Here the second half is added onto the first until one column is left, the same for any row on any device.
    """
    while (width := values.shape[-1]) > 1:
        half = width // 2
        rest = values[..., 2 * half :]
        values = values[..., :half] + values[..., half : 2 * half]
        if width % 2:
            values = torch.cat([values, rest], dim=-1)
    return values.squeeze(-1)
