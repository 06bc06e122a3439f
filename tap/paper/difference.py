"""A stated value beside the one that what it rests on gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

TOLERANCE: Final = 1e-9
"""Largest difference, relative above 1, between two ways of adding up the same values in float64."""


@dataclass(frozen=True)
class Difference:
    """A value that is not what it is made from gives.

    Attributes:
        file: the file that states it, as records call it.
        field: which of its values.
        recorded: what the file states; None if nothing.
        recomputed: what was found; None if nothing.
    """

    file: str
    field: str
    recorded: Any
    recomputed: Any

    def __str__(self) -> str:
        recorded, recomputed = ("nothing" if value is None else value for value in (self.recorded, self.recomputed))
        return f"{self.file}: {self.field}: recorded {recorded}, recomputed {recomputed}"


def same(stated: Any, given: Any) -> bool:
    """Whether two numbers are one but for the order in which it was added up."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (stated, given))
    return numbers and bool(np.isclose(stated, given, rtol=TOLERANCE, atol=TOLERANCE))
