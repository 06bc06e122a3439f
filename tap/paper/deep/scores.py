"""Scores of runs and probes, made anew from the values of single images."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tap.errors import UserError
from tap.paper.deep.outcome import Outcome
from tap.paper.difference import Difference, same
from tap.paper.scores import differing, read_arrays, scores_of
from tap.paper.tidy import PER_SAMPLE_FILE
from tap.paper.tidy_probes import NO_PRUNING, PER_SAMPLE, VALUES, probe_differences
from tap.plan.endpoints import endpoint_path
from tap.plan.results import METRICS
from tap.provenance.ledger import Ledger, Record
from tap.runs import Run

RUNS, PROBES = "runs' scores", "probes' values"


def check_runs(ledger: Ledger) -> Outcome:
    """Every score of every run from the values of single images beside it, its endpoint from the file that chose it."""
    outcome = Outcome()
    for record in by_job(ledger, "evaluate"):
        with outcome.following(record.name):
            outcome.add(RUNS, 1, _of_run(ledger, run_of_record(record)))
    return outcome


def check_probes(ledger: Ledger) -> Outcome:
    """Every value of every probe, from the values of single images, and the patches that it says it kept."""
    outcome = Outcome()
    for record in by_job(ledger, "probe"):
        with outcome.following(record.name):
            folder = Path(record.name).parent.as_posix()
            file, values = f"{folder}/{VALUES}", pd.read_csv(place_of(ledger, f"{folder}/{VALUES}"))
            task = str(record.content["parameters"]["task"])
            found = probe_differences(task, file, values, place_of(ledger, f"{folder}/{PER_SAMPLE}"))
            outcome.add(PROBES, len(values), [*found, *_of_tokens(file, values)])
    return outcome


def by_job(ledger: Ledger, *jobs: str) -> list[Record]:
    """Records of some kinds of job, by name."""
    return [record for _, record in sorted(ledger.records.items()) if record.job in jobs]


def run_of_record(record: Record) -> Run:
    """The run that a record is about."""
    scale, _, name = str(record.content["run"]).partition("/")
    return Run.parse(scale, name)


def place_of(ledger: Ledger, name: str) -> Path:
    """Where a file of the project is.

    Raises:
        UserError: it is not there.
    """
    place = ledger.place(name)
    if place is None or not place.is_file():
        raise UserError(f"{name}: is not there, and a stated value rests on it; take it back, or make it again")
    return place


def read_json(ledger: Ledger, name: str) -> dict[str, Any]:
    """A JSON object of the project.

    Raises:
        UserError: the file is missing or holds none.
    """
    try:
        value = json.loads(place_of(ledger, name).read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{name}: cannot be read as JSON ({error}); take it back, or make it again") from error
    if not isinstance(value, dict):
        raise UserError(f"{name}: holds no JSON object; take it back, or make it again")
    return value


def _of_run(ledger: Ledger, run: Run) -> list[Difference]:
    file, values = (f"{run.folder.as_posix()}/{name}" for name in (METRICS, PER_SAMPLE_FILE))
    stated, arrays = read_json(ledger, file), read_arrays(place_of(ledger, values))
    found = [*differing(file, stated, scores_of(run.task, arrays), complete=True), *_of_images(values, arrays)]
    if "recovery_endpoint" in stated:
        chosen = read_json(ledger, endpoint_path(run.scale, run.task).as_posix()).get("endpoint")
        if not same(stated["recovery_endpoint"], chosen):
            found.append(Difference(file, "recovery_endpoint", stated["recovery_endpoint"], chosen))
    return found


def _of_images(file: str, arrays: Mapping[str, np.ndarray]) -> Iterator[Difference]:
    """Every image counts once, in all arrays."""
    ids = arrays.get("sample_id", np.empty(0))
    if len(np.unique(ids)) != len(ids):
        yield Difference(file, "sample_id", f"{len(ids)} images", f"{len(np.unique(ids))} different ones")
    for name, values in arrays.items():
        if len(values) != len(ids):
            yield Difference(file, name, f"{len(values)} images", f"{len(ids)} in sample_id")


def _of_tokens(file: str, values: pd.DataFrame) -> Iterator[Difference]:
    """A probe keeps `round(rate * patches)` patches of every image, no pruning all of them."""
    patches = values[values["criterion"] == NO_PRUNING]["tokens"].max()
    for line in values.to_dict("records"):
        kept = float(np.floor(line["keep_rate"] * patches + 0.5))
        if not same(line["tokens"], kept):
            about = f"{line['criterion']} at block {line['layer']}, seed {line['seed']}, tokens"
            yield Difference(file, about, line["tokens"], kept)
