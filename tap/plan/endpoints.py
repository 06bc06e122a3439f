"""Who has the common recovery, and reads the endpoint that is chosen for it.

This decides results, so the fingerprint of trainings and evaluations covers it.
"""

from __future__ import annotations

from pathlib import Path

from tap.config.lookup import facts_of, method_of
from tap.config.schema import JobSpec


def uses_endpoint(spec: JobSpec) -> bool:
    """Whether the endpoint of the common recovery decides anything in a job."""
    common = facts_of(spec.task).dense and method_of(spec.method).readout == "common"
    return common and spec.rate < 1.0 and not spec.recovery.zero_fill


def endpoint_path(scale: str, task: str) -> Path:
    """The file with a task's chosen endpoint."""
    return Path("results") / scale / f"endpoint_{task}.json"


def endpoint_file(spec: JobSpec) -> Path | None:
    """The file that a job reads its endpoint from; None where it needs none or the settings give it."""
    return endpoint_path(spec.scale, spec.task) if uses_endpoint(spec) and spec.recovery.endpoint == "auto" else None
