"""What a criterion sees of a frozen block, and what it answers (`tab:criteria`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from tap.criteria.cosines import cosines


@dataclass(frozen=True)
class ProbeInputs:
    """States of one frozen block before its attention; every patch of the grid is a candidate.

    Attributes:
        features: patch tokens entering the block, before its LayerNorm. ``(B, N, d)``.
        keys: projected keys of the patches, heads concatenated. ``(B, N, d)``.
        mean_attention: attention that each patch receives, averaged over heads and queries. ``(B, N)`` float32.
        max_attention: the largest attention that each patch receives from any head and query. ``(B, N)`` float32.
        grid: rows and columns of the patch grid, with N cells in row-major order.
        sample_ids: identity of every image in its data set. ``(B,)`` int64.
        layer: the block, counted from 1.
        seed: of the random criterion.
    """

    features: Tensor
    keys: Tensor
    mean_attention: Tensor
    max_attention: Tensor
    grid: tuple[int, int]
    sample_ids: Tensor
    layer: int
    seed: int = 0

    @property
    def patches(self) -> int:
        """N, the candidates of every image."""
        return self.grid[0] * self.grid[1]

    @cached_property
    def token_cosines(self) -> Tensor:
        """Cosine of every two patches' features, made once for all criteria and not to be written to. `cosines`."""
        return cosines(self.features)

    @cached_property
    def key_cosines(self) -> Tensor:
        """Cosine of every two patches' keys, as `token_cosines`."""
        return cosines(self.keys)


Rule = Callable[[ProbeInputs, int], Tensor]
"""Marks the patches to keep, exactly ``count`` in every image: (inputs, count) to ``(B, N)`` bool."""


@dataclass(frozen=True)
class Criterion:
    """One row of `tab:criteria`.

    Attributes:
        name: identifier in parameters and results.
        title: as printed.
        family: as printed.
        summary: the rule in a few words.
        rule: marks the patches to keep.
        needs_attention: whether it looks at the attention matrix, so that a probe without it can skip that.
    """

    name: str
    title: str
    family: str
    summary: str
    rule: Rule
    needs_attention: bool = False

    def keep(self, inputs: ProbeInputs, count: int) -> Tensor:
        """Patches that stay. An image's answer does not depend on the other images of its batch.

        Args:
            inputs: states of the frozen block.
            count: patches to keep, from 1 to N.

        Returns:
            Original indices, ascending. ``(B, count)`` int64.
        """
        if not 1 <= count <= inputs.patches:
            raise ValueError(f"cannot keep {count} of {inputs.patches} patches")
        return self.rule(inputs, count).nonzero()[:, 1].view(-1, count)
