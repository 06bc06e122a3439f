"""Deterministic, balanced choices of samples: calibration splits and small-scale limits."""

from __future__ import annotations

import numpy as np

from tap.seeds import derive_seed


def shuffled(count: int, *name: int | str) -> np.ndarray:
    """A permutation of ``range(count)`` that depends on `name` alone.

    NumPy guarantees the raw 64-bit stream that this uses; a generator's `permutation` may change between versions.
    """
    return np.argsort(np.random.PCG64(derive_seed(*name)).random_raw(count), kind="stable")


def balanced(groups: np.ndarray, count: int, *name: int | str) -> np.ndarray:
    """Chooses `count` samples, as many of each group (class, sequence) as of the others or one more.

    A group that runs out gives all it has, and the others fill up. A larger `count` under the same name contains the
    smaller choice.

    Args:
        groups: (N,) group of each sample; any sortable type.
        count: samples to choose; N or more chooses all.
        name: what names the draw, such as ``("calibration",)``.

    Returns:
        Chosen positions, ascending.
    """
    order = shuffled(len(groups), *name)
    _, group = np.unique(groups[order], return_inverse=True)
    # Rank of each sample within its group: taking samples by (rank, group) deals them out in turns.
    by_group = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[by_group], np.arange(group.max(initial=-1) + 1))
    rank = np.empty(len(groups), dtype=np.int64)
    rank[by_group] = np.arange(len(groups)) - starts[group[by_group]]
    return np.sort(order[np.lexsort((group, rank))[:count]])
