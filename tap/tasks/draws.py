"""Integers that are drawn the same way on every machine and with every version of NumPy."""

from __future__ import annotations

import numpy as np

from tap.seeds import derive_seed


class Draws:
    """Integers from the raw 64-bit stream of PCG64, which NumPy guarantees not to change.

    Args:
        name: what names the draws, such as ``("tiles", "hela", "training")``.
    """

    def __init__(self, *name: int | str) -> None:
        self._bits = np.random.PCG64(derive_seed(*name))

    def below(self, limit: int) -> int:
        """An integer in [0, limit)."""
        return int(self._bits.random_raw()) % limit

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return low + self.below(high - low + 1)

    def many_below(self, limit: int, shape: tuple[int, ...]) -> np.ndarray:
        """Integers in [0, limit) of a shape, int64."""
        raw = self._bits.random_raw(int(np.prod(shape)))
        return (raw % np.uint64(limit)).astype(np.int64).reshape(shape)
