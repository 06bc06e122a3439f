"""Data as jobs: fetched and verified, or a person's own that is looked at. Both leave a record."""

from __future__ import annotations

import importlib
import json
from datetime import UTC, datetime
from pathlib import Path

from tap.config.data import DataConfig
from tap.config.datasets import CHECKED, PREPARED
from tap.errors import UserError
from tap.provenance.files import atomic_write
from tap.provenance.fingerprint import hash_of
from tap.provenance.record import (
    BY_HAND,
    DATA_RECORD,
    RECORD_SUFFIX,
    Stamp,
    describe_files,
    describe_folder,
    read_record,
    record_job,
)
from tap.tasks.report import Report


def prepare_data(data: DataConfig, source: Path | None = None, stamp: Stamp = BY_HAND) -> Path:
    """Fetches and verifies a dataset; safe to repeat, and goes on after an interruption.

    A call that finds everything in place leaves the record of the first one, which later records name.

    Returns:
        The manifest.

    Raises:
        UserError: the dataset is a person's own, cannot be had, or its folder cannot be written.
    """
    if data.name not in PREPARED:
        raise UserError(
            f"data: {data.name} is not fetched; put it into {data.root}, then `tap data check` says whether it is right"
        )
    started, root = datetime.now(UTC), Path(data.root)
    manifest: Path = importlib.import_module(PREPARED[data.name]).prepare(root, source)
    path = root / DATA_RECORD
    files = sorted(file for file in root.rglob("*") if file.is_file() and file != path and file.name[0] != ".")
    known = read_record(path)
    if known is None or (known["outputs"], known["fingerprint"]) != (
        describe_files(files, bases=(root,)),
        hash_of(stamp.fingerprint),
    ):
        record_job(
            path,
            stamp,
            inputs=[],
            outputs=files,
            started=started,
            bases=(root,),
        )
    return manifest


def check_data(
    data: DataConfig, report: Path | None = None, decode_all: bool = False, stamp: Stamp = BY_HAND
) -> Report:
    """Looks at a person's own data: counts, classes, files that cannot be read.

    Args:
        data: which data, and where.
        report: where to write the findings, with the record of the job, if nothing is wrong.
        decode_all: decode every image (hours for ImageNet).
        stamp: what the record says of the job.

    Raises:
        UserError: the dataset is one that this project fetches, or its folder is not there.
    """
    if data.name not in CHECKED:
        raise UserError(f"data: {data.name} is verified whenever it is prepared: `tap data prepare`")
    started = datetime.now(UTC)
    found: Report = importlib.import_module(CHECKED[data.name]).check_settings(data, decode_all)
    if data.subset is not None:
        found.facts.append(f"a stated part of the data set: {data.subset[0]} and {data.subset[1]} images, for a trial")
    if report is not None and found.ok:
        atomic_write(report, json.dumps({"data": data.name, "facts": found.facts}, indent=1) + "\n")
        record_job(
            report.with_suffix(RECORD_SUFFIX),
            stamp,
            inputs=[],
            outputs=[report],
            started=started,
            bases=(data.root,),
            facts={"folders": describe_folder(data.root, bases=(data.root,))},
        )
    return found
