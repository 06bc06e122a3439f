"""Tidy tables of everything that the runs of a scale and task measured: what every paper table is a function of.

The runs of a task's main table have one, its other keep rates and variants another, so that no table waits for what it
does not show.

One row per (run, metric). A run that is not there yet is simply absent; a run that is there and cannot be read is an
error, because a silently dropped run would look like one that nobody has made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from tap.config.load import load_scale
from tap.config.methods import PRETRAINING, SCORES
from tap.errors import UserError
from tap.paper import units
from tap.paper.scores import differing, read_arrays, scores_of
from tap.paper.tidy_form import read_frame, typed, write_frame
from tap.plan.results import METRICS
from tap.plan.runs import runs_of_tidy
from tap.provenance.record import BY_HAND, Stamp
from tap.runs import SCALES, Run
from tap.task_facts import TASKS

PER_SAMPLE_FILE = "per_sample.npz"
TRAINING_RECORD, EVALUATION_RECORD = "run.json", "evaluation.json"

PRIMARY_METRIC = {task: names[0] for task, names in SCORES.items()}

UNITS = {
    **units.UNITS,
    **{
        f"{kind}_ap{part}": "percent"
        for kind in ("box", "mask")
        for part in ("50", "75", "_small", "_medium", "_large")
    },
    "boundary_retention": "percent",
    "class_coverage": "percent",
    "box_interior_retention": "percent",
    "small_object_coverage": "percent",
    "patches": "patches",
    "final_tokens_mean": "patches",
    "final_tokens_sd": "patches",
    "parameters": "parameters",
    "parameters_added": "parameters",
    "parameters_added_training": "parameters",
    "parameters_shared": "parameters",
}
"""Units of the metrics that tables print. Other metrics pass through with an empty unit."""

_PERCENT = tuple(name for name, unit in UNITS.items() if unit == "percent")
SCHEMA = pa.DataFrameSchema(
    {
        "run": pa.Column(str),
        "scale": pa.Column(str, pa.Check.isin(SCALES)),
        "task": pa.Column(str, pa.Check.isin(list(TASKS))),
        "method": pa.Column(str),
        "rate": pa.Column(float, pa.Check.in_range(0.0, 1.0, include_min=False)),
        "variant": pa.Column(str),
        "seed": pa.Column(int, pa.Check.ge(0)),
        "metric": pa.Column(str),
        "value": pa.Column(float, pa.Check(lambda value: value.abs() < math.inf)),
        "unit": pa.Column(str),
        "device": pa.Column(str),
        "dtype": pa.Column(str),
        "batch": pa.Column(pd.Int64Dtype(), nullable=True),
        "kernel": pa.Column(str),
        "dataset": pa.Column(str),
        "budget": pa.Column(str),
        "start": pa.Column(str),
        "fingerprint": pa.Column(str),
        "evaluation_fingerprint": pa.Column(str),
        "per_sample": pa.Column(str),
    },
    checks=pa.Check(lambda frame: ~units.outside(frame, _PERCENT), error="a score in percent lies outside 0 to 100"),
    unique=["run", "metric"],
    strict=True,
    ordered=True,
)
"""Columns: the run and its parts; metric, value and unit; then where it was measured (device, dtype, batch, kernel),
on what (dataset), after which training (budget, and start: what the training started from), by which code (fingerprint
of the training, and of the evaluation), and the file with the values of single images, relative to the project (empty
if there is none)."""


def gather(runs: Iterable[Run], root: Path | str = ".", compare: bool = True) -> pd.DataFrame:
    """Reads what the runs measured.

    Args:
        runs: the runs that may be there; which of them are is found out here.
        root: the project's folder.
        compare: hold every score against the values of single images beside it.

    Returns:
        The tidy table, ordered by run and metric; without rows if no run is there.

    Raises:
        UserError: a run's file is unreadable, not of the right form, or holds a number that cannot be, or that its
            per-image values do not give.
    """
    rows: list[dict[str, Any]] = []
    for run in sorted(set(runs)):
        if (Path(root) / run.folder / METRICS).is_file():
            rows += _rows_of(run, Path(root), compare)
    return typed(pd.DataFrame(rows, columns=list(SCHEMA.columns)), SCHEMA, "results")


def write_tidy(scale: str, of: str, path: Path | str, root: Path | str = ".", stamp: Stamp = BY_HAND) -> Path:
    """Gathers the runs of a tidy table and writes them as CSV, whole or not at all, with the job's record.

    Raises:
        UserError: as `gather` and `tap.config.load.load_scale` do; nothing is measured yet; or the path cannot be
            written.
    """
    started = datetime.now(UTC)
    runs = runs_of_tidy(load_scale(scale, root=root), of)
    frame = gather(runs, root)
    if runs and frame.empty:
        raise UserError(
            f"results/{scale}/runs: no run of {of} is measured there, so there is nothing to gather; "
            f"`snakemake results/{scale}/tidy_{of}.csv --config scale={scale}` makes what it takes"
        )
    measured = (METRICS, PER_SAMPLE_FILE, EVALUATION_RECORD, TRAINING_RECORD)
    files = [Path(root) / run.folder / name for run in runs for name in measured]
    return write_frame(Path(path), frame, files, started, stamp, Path(root))


def read_tidy(path: Path | str) -> pd.DataFrame:
    """Reads what `write_tidy` wrote.

    Raises:
        UserError: the file is missing, or not a tidy table.
    """
    return read_frame(path, SCHEMA)


def _rows_of(run: Run, root: Path, compare: bool) -> list[dict[str, Any]]:
    metrics = _read_json(root / run.folder / METRICS)
    record = _read_json(root / run.folder / TRAINING_RECORD)
    evaluation = root / run.folder / EVALUATION_RECORD
    per_sample = run.folder / PER_SAMPLE_FILE
    common = {
        "run": run.id,
        "scale": run.scale,
        "task": run.task,
        "method": run.method,
        "rate": run.rate,
        "variant": run.variant,
        "seed": run.seed,
        "device": str(metrics.get("device", "")),
        "dtype": str(metrics.get("dtype", "")),
        "batch": metrics.get("batch_size", pd.NA),
        "kernel": str(metrics.get("kernel", "")),
        "per_sample": per_sample.as_posix() if (root / per_sample).is_file() else "",
        "evaluation_fingerprint": str(_read_json(evaluation).get("fingerprint", "")) if evaluation.is_file() else "",
        **_provenance(record),
    }
    numbers = _numbers(run.folder / METRICS, metrics)
    needed = PRIMARY_METRIC[run.task]
    if run.method != PRETRAINING and needed not in numbers:
        raise UserError(f"{run.folder / METRICS}: has no '{needed}'; evaluate {run.id} again")
    if compare and common["per_sample"]:
        given = scores_of(run.task, read_arrays(root / per_sample))
        for difference in differing((run.folder / METRICS).as_posix(), numbers, given):
            raise UserError(f"{difference} from {PER_SAMPLE_FILE} beside it; evaluate {run.id} again")
    return [
        {**common, "metric": name, "value": value, "unit": UNITS.get(name, "")}
        for name, value in sorted(numbers.items())
    ]


def _numbers(path: Path, metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics proper: numbers. Text and null are facts or not measured; nested values have no place in the file."""
    numbers = {}
    for name, value in metrics.items():
        if isinstance(value, list | dict):
            raise UserError(f"{path}: '{name}' is no single value; put arrays into {PER_SAMPLE_FILE}")
        if name == "batch_size" or isinstance(value, bool | str | None):
            continue
        if not math.isfinite(value):
            raise UserError(f"{path}: '{name}' is {value}, no finite number; evaluate the run again")
        if name in _PERCENT and not 0.0 <= value <= 100.0:
            raise UserError(f"{path}: '{name}' is {value}, no percentage; evaluate the run again")
        numbers[name] = float(value)
    return numbers


def _provenance(record: Mapping[str, Any]) -> dict[str, str]:
    """Training, data and code of a run, as `run.json` recorded them."""
    spec = record.get("spec", {})
    train = spec.get("train", {})
    budget = ""
    if train:
        length = f"{train['length']:g} {train['unit']}"
        budget = f"{length}, batch {train['batch_size']}"
    return {
        "dataset": str(spec.get("data", {}).get("name", "")),
        "budget": budget,
        "start": str(spec.get("start_from", "")),
        "fingerprint": str(record.get("fingerprint", "")),
    }


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path}: cannot be read as JSON ({error}); make the run again") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: must hold a JSON object, not a {type(value).__name__}; make the run again")
    return value
