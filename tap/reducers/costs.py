"""What a method's file says of its operations, for the one formula of `tap.profiling.method_flops`.

A method declares `COST = Cost(...)` beside its class, never inside it: what is counted decides nothing that is trained,
so another formula repeats no training. Two operations for each multiply-accumulate, as everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

Removal = Literal["queries", "block", "mlp", "end"]


@dataclass(frozen=True)
class BlockCounts:
    """One block of a pass.

    Attributes:
        reducer: the method.
        layer: its number, from 1.
        dim, heads: width d and heads.
        prefix: rows in front of the patches.
        before, after: patches of each image before and after its removal `(B,)`, int64.
        longer: what relative position adds to queries and keys of a head; 0 without.
        matched: whether removed patches are matched to those that stay, for a dense head.
    """

    reducer: Any
    layer: int
    dim: int
    heads: int
    prefix: int
    before: Tensor
    after: Tensor
    longer: int
    matched: bool

    @property
    def images(self) -> int:
        """Images of the batch."""
        return len(self.before)

    @property
    def rows(self) -> float:
        """Rows of all images that enter."""
        return float((self.before + self.prefix).sum())

    @property
    def removed(self) -> int:
        """Patches that the image loses that loses most."""
        return int((self.before - self.after).max())

    @property
    def width(self) -> int:
        """Patches of the longest image before the removal."""
        return int(self.before.max())

    @property
    def left(self) -> int:
        """Patches of the longest image after the removal."""
        return int(self.after.max())


def _nothing(_: BlockCounts) -> float:
    return 0.0


def _never(_: Any, __: int) -> bool:
    return False


def _nowhere(_: Any) -> tuple[int, ...]:
    return ()


@dataclass(frozen=True)
class Cost:
    """What a method computes.

    Attributes:
        removes: what of a pruning block no longer sees what it removes: its queries and values (`queries`; keys are
            those of all candidates), all of it (`block`), its MLP (`mlp`), or only the blocks behind it (`end`).
        own: operations beside the block itself.
        looks: whether it reads the keys of candidates to choose; else recovery alone does.
        restarts: (reducer, block) -> whether the block begins with all patches again.
        works: reducer -> blocks that cost something of their own although they remove nothing.
    """

    removes: Removal
    own: Callable[[BlockCounts], float] = _nothing
    looks: bool = True
    restarts: Callable[[Any, int], bool] = _never
    works: Callable[[Any], tuple[int, ...]] = _nowhere


def cost_of(reducer: Any) -> Cost | None:
    """The cost that a method's file declares; None where it has none."""
    return getattr(sys.modules[type(reducer).__module__], "COST", None)


def class_row(given: BlockCounts) -> float:
    """Attention logits of the class token."""
    return 2.0 * given.images * given.dim * (given.width + given.prefix)


def all_rows(given: BlockCounts) -> float:
    """Attention logits of all queries, relative position included."""
    pairs = float((given.before + given.prefix).square().sum())
    return 2 * pairs * (given.dim + given.heads * given.longer) + relative_tables(given, given.rows)


def relative_tables(given: BlockCounts, rows: float) -> float:
    """Queries times the vectors of all distances, of which relative position takes those that there are."""
    return 2 * rows * given.dim * 2 * given.longer


def merging(given: BlockCounts, sources: int) -> float:
    """Means of merged patches as a product with the table of who goes where."""
    rows = given.left + (given.prefix if int(given.after.min()) == given.left else 0)
    return 2.0 * given.images * rows * sources * given.dim


def pairing(given: BlockCounts, width: float) -> float:
    """Cosines of every second token with the others."""
    candidates = len(range(given.prefix % 2, given.width, 2))
    return 2.0 * given.images * candidates * (given.width - candidates) * width


def linear(module: nn.Module) -> int:
    """Multiply-accumulates of one row in all linear layers of a module."""
    return sum(part.weight.numel() for part in module.modules() if isinstance(part, nn.Linear))
