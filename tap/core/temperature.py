"""Temperature of the soft mask over training."""

from __future__ import annotations

from math import cos, pi


def cosine_temperature(progress: float, start: float, end: float) -> float:
    """tau on a half cosine from ``start`` to ``end`` (Sec. Cardinality-constrained straight-through training).

    Args:
        progress: share of the training that is done; values outside [0, 1] count as the nearer end.
        start: temperature at progress 0.
        end: temperature at progress 1.
    """
    done = min(max(progress, 0.0), 1.0)
    return end + 0.5 * (start - end) * (1.0 + cos(pi * done))
