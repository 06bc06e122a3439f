"""The weights that a run has published: found, and checked against the run's record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tap.errors import UserError
from tap.provenance.files import sha256_file
from tap.provenance.record import RECORD
from tap.runs import Run

WEIGHTS, LOG = "model.safetensors", "log.csv"


def published_weights(run: Run) -> Path:
    """The weights that a run has published.

    Raises:
        UserError: the run is not trained, the file is not the one that its record tells of, or that is another run's.
    """
    path = run.folder / WEIGHTS
    if not path.is_file():
        raise UserError(f"{path}: run {run.id} is not trained yet; train it first")
    if not is_published(run):
        raise UserError(
            f"{path}: differs from what {run.folder / RECORD} says of it (cut off, edited, or its job was killed); "
            f"train run {run.id} again"
        )
    trained = json.loads((run.folder / RECORD).read_text()).get("run")
    if trained != f"{run.scale}/{run.id}":
        raise UserError(
            f"{path}: is the checkpoint of {trained}, as its record says, not of {run.scale}/{run.id}; put each run's "
            f"files into its own folder, or train run {run.id}"
        )
    return path


def is_published(run: Run) -> bool:
    """Whether all files of a training are there, and are those that its record names."""
    record = run.folder / RECORD
    if not record.is_file():
        return False
    outputs: dict[str, dict[str, Any]] = json.loads(record.read_text()).get("outputs", {})
    known = {Path(name).name: facts["sha256"] for name, facts in outputs.items()}
    files = [run.folder / name for name in (WEIGHTS, LOG)]
    return all(file.is_file() and known.get(file.name) == sha256_file(file) for file in files)
