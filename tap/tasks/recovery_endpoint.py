"""How the dense tasks give removed positions back, and the endpoint of methods that have no way of their own.

The paper fixes one endpoint per task, the same for all selectors, on a held-out subset of the training images: the full
offset (alpha = 1) for segmentation, the stand-in alone (alpha = 0) for detection (Sec. Baseline provenance and common
recovery). Here `tap endpoint` makes that choice on the calibration split and writes it into a file, which every
training and evaluation with `recovery.endpoint: auto` reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from torch import nn

from tap.config.lookup import method_of
from tap.config.schema import JobSpec
from tap.encoder.recovery_buffer import RecoverySettings
from tap.errors import UserError
from tap.plan.endpoints import endpoint_file
from tap.task_facts import Metric

ENDPOINTS: Final = (1.0, 0.0)
"""Full offset and stand-in only."""


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
    """The recovery of a job: a learned scale where the method has one, else the one endpoint of all.

    Raises:
        UserError: the endpoint is to be chosen and has not been.
    """
    settings = spec.recovery
    scale: Any = settings.scale
    if method_of(spec.method).readout != "learned":
        path = endpoint_file(spec)
        scale = settings.endpoint if path is None else _read_endpoint(path)
    scale = 1.0 if scale == "auto" else scale  # nothing is removed, so nothing is restored
    return RecoverySettings(scale, settings.matching, settings.zero_fill, spec.seed)


def choose_endpoint(models: Sequence[nn.Module], score: Callable[[nn.Module], float], metric: Metric) -> EndpointChoice:
    """Scores checkpoints with both endpoints and takes the better one; the full offset where they are equal.

    Args:
        models: one or more models with an `encoder`; several (selectors, seeds) share one endpoint.
        score: computed on the calibration split.
        metric: what it is, which says which way is better.
    """
    scores = {}
    for endpoint in ENDPOINTS:
        found = []
        for model in models:
            with _fixed_scale(model, endpoint):
                found.append(score(model))
        scores[endpoint] = sum(found) / len(found)
    return EndpointChoice(max(scores, key=lambda endpoint: metric.gain(scores[endpoint], 0.0)), scores)


@contextmanager
def _fixed_scale(model: Any, alpha: float) -> Iterator[None]:
    """Has `model.encoder` restore the share `alpha` of every offset for as long as the context lasts."""
    before = model.encoder.recovery
    model.encoder.recovery = replace(before, scale=alpha)
    try:
        yield
    finally:
        model.encoder.recovery = before


def _read_endpoint(path: Path) -> float:
    try:
        endpoint = json.loads(path.read_text())["endpoint"]
    except FileNotFoundError as error:
        task = path.stem.removeprefix("endpoint_")
        raise UserError(f"{path}: the endpoint is not chosen yet; run `tap endpoint {task}`, or set it") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: holds no endpoint; delete it and choose again with `tap endpoint`") from error
    if endpoint not in ENDPOINTS:
        raise UserError(f"{path}: its endpoint is {endpoint}, neither 0 nor 1; delete it and choose again")
    return float(endpoint)
