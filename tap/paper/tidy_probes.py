"""One tidy table of everything that a task's probes measured: what probe tables, figures and claims are functions of.

One row per (probe, checkpoint, criterion, block, endpoint, metric). No pruning is criterion `dense` at block 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa

from tap.config.load import load_scale
from tap.errors import UserError
from tap.paper import units
from tap.paper.difference import Difference
from tap.paper.scores import differing, read_arrays, scores_of
from tap.paper.tidy_form import read_frame, typed, write_frame
from tap.plan.results import PROBES, tidy_path
from tap.plan.runs import probe_folder, probes_of, task_of
from tap.provenance.record import BY_HAND, Stamp
from tap.runs import SCALES
from tap.task_facts import PLACE, TASKS

VALUES, PER_SAMPLE, RECORD = "values.csv", "per_sample.npz", "probe.json"
LAYERS, RECOVERY = "layers", "recovery"
NO_PRUNING = "dense"

_KEY = ["probe", "run", "criterion", "layer", "endpoint", "metric"]

SCHEMA = pa.DataFrameSchema(
    {
        "scale": pa.Column(str, pa.Check.isin(SCALES)),
        "task": pa.Column(str, pa.Check.isin(list(TASKS))),
        "probe": pa.Column(str, pa.Check.isin([LAYERS, RECOVERY])),
        "run": pa.Column(str),
        "seed": pa.Column(int, pa.Check.ge(0)),
        "criterion": pa.Column(str),
        "layer": pa.Column(int, pa.Check.ge(0)),
        "endpoint": pa.Column(float, pa.Check.in_range(0.0, 1.0), nullable=True),
        "keep_rate": pa.Column(float, pa.Check.in_range(0.0, 1.0, include_min=False)),
        "tokens": pa.Column(float, pa.Check.gt(0)),
        "images": pa.Column(int, pa.Check.ge(1)),
        "metric": pa.Column(str),
        "value": pa.Column(float),
        "device": pa.Column(str),
        "dataset": pa.Column(str),
        "fingerprint": pa.Column(str),
        "per_sample": pa.Column(str),
        "position": pa.Column(int, pa.Check.ge(0)),
    },
    checks=pa.Check(lambda frame: ~units.outside(frame), error="a value that its metric cannot have"),
    unique=_KEY,
    strict=True,
    ordered=True,
)
"""Columns: scale, task and probe (`layers` or `recovery`); the probed checkpoint's run and seed; what was probed
(criterion, block, recovery endpoint) at which local keep rate; mean patches that reached the last block and number of
images; metric and value in its unit; then device, dataset and code, and where the values of single images are: a file,
relative to the project (empty if there is none), and the row of its arrays."""


def gather_probes(scale: str, task: str, root: Path | str = ".", compare: bool = True) -> pd.DataFrame:
    """Reads what the probes of a task measured; a probe that is not made is absent.

    Args:
        scale: whose.
        task: its name.
        root: the project's folder.
        compare: hold every score against the values of single images beside it.

    Raises:
        UserError: a file is unreadable, not of the right form, or holds a number that cannot be, or that its per-image
            values do not give.
    """
    rows: list[dict[str, Any]] = []
    for probe in probes_of(task):
        if (Path(root) / probe_folder(scale, task, probe) / VALUES).is_file():
            rows += _rows(scale, task, probe, Path(root))
    frame = typed(pd.DataFrame(rows, columns=list(SCHEMA.columns)), SCHEMA, f"results/{scale}/probes/{task}")
    for (probe, arrays), lines in frame[frame["per_sample"] != ""].groupby(["probe", "per_sample"]) if compare else ():
        file = (probe_folder(scale, task, probe) / VALUES).as_posix()
        for difference in probe_differences(task, file, lines, Path(root) / arrays):
            raise UserError(f"{difference} from {PER_SAMPLE} beside it; make the probe again")
    return frame


def write_tidy_probes(scale: str, task: str, root: Path | str = ".", stamp: Stamp = BY_HAND) -> Path:
    """Gathers the probes of a task and writes them as CSV, whole or not at all, with the job's record.

    Raises:
        UserError: the scale does not have the task; otherwise as `gather_probes`, or the path cannot be written.
    """
    started, root = datetime.now(UTC), Path(root)
    task_of(load_scale(scale, root=root), task)
    frame, path = gather_probes(scale, task, root), root / tidy_path(scale, f"{PROBES}{task}")
    folders = [root / probe_folder(scale, task, probe) for probe in probes_of(task)]
    files = [folder / name for folder in folders for name in (VALUES, PER_SAMPLE, RECORD)]
    return write_frame(path, frame, files, started, stamp, root)


def read_tidy_probes(path: Path | str) -> pd.DataFrame:
    """Reads what `write_tidy_probes` wrote.

    Raises:
        UserError: the file is missing, or not such a table.
    """
    return read_frame(path, SCHEMA)


def probe_differences(task: str, file: str, values: pd.DataFrame, path: Path) -> list[Difference]:
    """Values of a probe that the values of single images do not give.

    Args:
        task: its name.
        file: who states them.
        values: lines with criterion, layer, seed, metric, value, images and position.
        path: the archive, whose arrays have the probe in front `(V, n, ...)`; the images `(n,)` are those of all.

    Raises:
        UserError: the archive is damaged, or lacks a probe of the lines.
    """
    arrays = read_arrays(path, "make the probe again")
    ids = arrays.pop("sample_id", np.empty(0))
    arrays.pop(PLACE, None)  # decides what is resampled together, and no score
    found: list[Difference] = []
    for position, lines in values.groupby("position"):
        try:
            given = scores_of(task, {name: stacked[position] for name, stacked in arrays.items()} | {"sample_id": ids})
        except IndexError as error:
            raise UserError(f"{path}: holds no probe number {position}; make the probe again") from error
        for line in lines.to_dict("records"):
            about = f"{line['criterion']} at block {line['layer']}, seed {line['seed']}"
            stated = {line["metric"]: line["value"], "images": line["images"]}
            found += [replace(item, field=f"{about}, {item.field}") for item in differing(file, stated, given)]
    return found


def _rows(scale: str, task: str, probe: str, root: Path) -> Iterable[dict[str, Any]]:
    folder = probe_folder(scale, task, probe)
    path, record = root / folder / VALUES, root / folder / RECORD
    try:
        values = pd.read_csv(path)
        about = json.loads(record.read_text(encoding="utf-8"))
        facts = {name: str(about[name]) for name in ("device", "dataset", "fingerprint")}
    except (OSError, ValueError, KeyError, TypeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise UserError(f"{folder}: {VALUES} or {RECORD} cannot be read ({error!r}); make the probe again") from error
    if values.empty:
        raise UserError(f"{folder / VALUES}: holds no probe; make it again")
    arrays = (folder / PER_SAMPLE).as_posix() if (root / folder / PER_SAMPLE).is_file() else ""
    common = {"scale": scale, "task": task, "probe": probe, **facts, "per_sample": arrays}
    return [{**line, **common} for line in values.to_dict("records")]
