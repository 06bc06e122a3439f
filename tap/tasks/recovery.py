"""How the dense tasks give removed positions back, and the endpoint of methods that have no way of their own.

The paper fixes one endpoint per task on a held-out subset of the training images: the full offset (alpha = 1) for
segmentation, the stand-in alone (alpha = 0) for detection (Sec. Baseline provenance and common recovery).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from torch import nn

from tap.config.methods import DENSE, TAP
from tap.config.schema import JobSpec
from tap.encoder.recovery import RecoverySettings

ENDPOINTS: Final = (1.0, 0.0)
"""Full offset and stand-in only."""

_OF_PAPER: Final = {"seg": 1.0, "det": 0.0}


@dataclass(frozen=True)
class EndpointChoice:
    """Result of `choose_endpoint`.

    Attributes:
        endpoint: the better alpha.
        scores: mean score of the checkpoints by alpha.
    """

    endpoint: float
    scores: dict[float, float]


def recovery_settings(spec: JobSpec) -> RecoverySettings:
    """The recovery that a job trains with: TAP's learned scale, or the fixed endpoint of all other methods."""
    settings = spec.recovery
    scale: Any = settings.scale
    if spec.method != TAP:
        scale = _OF_PAPER[spec.task] if settings.endpoint == "auto" else settings.endpoint
    return RecoverySettings(scale, settings.matching, settings.zero_fill, spec.seed)


def uses_endpoint(spec: JobSpec) -> bool:
    """Whether the endpoint decides anything: the method removes patches, and recovery is not learned or off."""
    return spec.method not in (DENSE, TAP) and spec.rate < 1.0 and not spec.recovery.zero_fill


def choose_endpoint(models: Sequence[nn.Module], score: Callable[[nn.Module], float]) -> EndpointChoice:
    """Scores trained checkpoints with both endpoints and takes the better one; the full offset where they are equal.

    Args:
        models: one or more checkpoints with an `encoder`; several (selectors, seeds) share one endpoint.
        score: higher is better; computed on the calibration split.
    """
    scores = {}
    for endpoint in ENDPOINTS:
        found = []
        for model in models:
            with fixed_scale(model, endpoint):
                found.append(score(model))
        scores[endpoint] = sum(found) / len(found)
    return EndpointChoice(max(scores, key=lambda endpoint: scores[endpoint]), scores)


@contextmanager
def fixed_scale(model: Any, alpha: float) -> Iterator[None]:
    """Has `model.encoder` restore the share `alpha` of every offset for as long as the context lasts."""
    before = model.encoder.recovery
    model.encoder.recovery = replace(before, scale=alpha)
    try:
        yield
    finally:
        model.encoder.recovery = before
