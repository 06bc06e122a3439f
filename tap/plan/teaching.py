"""Who learns from the no-pruning model of the same seed, and from which.

This decides results, so the fingerprint of the trainings covers it.
"""

from __future__ import annotations

from tap.config.lookup import method_of
from tap.config.methods import DENSE, MAIN
from tap.config.schema import JobSpec
from tap.runs import Run


def has_teacher(spec: JobSpec) -> bool:
    """Whether a training also learns from the no-pruning checkpoint of its seed."""
    return method_of(spec.method).taught and spec.rate < 1.0


def teacher_run(spec: JobSpec) -> Run | None:
    """The run that a training learns from; None for most."""
    return Run(spec.scale, spec.task, DENSE, seed=spec.seed) if has_teacher(spec) else None


def dense_spec(spec: JobSpec) -> JobSpec:
    """The settings of no pruning with the seed of a run."""
    main = {"method": DENSE, "rate": 1.0, "variant": MAIN, "options": None}
    return spec.model_copy(update=main)
