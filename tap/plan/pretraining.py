"""What makes a run the pre-training: it reconstructs the images of its task, where every other run solves the task.

This decides results, so the fingerprint of all jobs on a model covers it.
"""

from __future__ import annotations

from tap.config.methods import PRETRAINING
from tap.config.schema import JobSpec


def is_pretraining(spec: JobSpec) -> bool:
    """Whether a job's model is the masked autoencoder instead of its task's."""
    return spec.method == PRETRAINING
