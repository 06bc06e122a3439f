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
