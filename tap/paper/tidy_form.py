"""What tidy tables have in common: read with the types of their columns, checked, and written with a record."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pandas as pd
import pandera.pandas as pa

from tap.errors import UserError
from tap.provenance.files import atomic_write
from tap.provenance.record import RECORD_SUFFIX, Stamp, record_job


def read_frame(path: Path | str, schema: pa.DataFrameSchema) -> pd.DataFrame:
    """Reads what `write_frame` wrote.

    Raises:
        UserError: the file is missing, or not what its schema says.
    """
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise UserError(f"{path}: cannot be read as a tidy table ({error}); `tap gather` makes it") from error
    return typed(frame, schema, str(path))


def write_frame(
    path: Path, frame: pd.DataFrame, read: Iterable[Path], started: datetime, stamp: Stamp, root: Path
) -> Path:
    """Writes a table as CSV, whole or not at all, with the job's record.

    Args:
        path: the table.
        frame: its content.
        read: what it may have been made from; files that are not there are left out of the record.
        started: when the job began.
        stamp: of the job.
        root: the project's folder.

    Raises:
        UserError: the path cannot be written.
    """
    path = atomic_write(path, frame.to_csv(index=False, lineterminator="\n"))
    inputs = [file for file in read if file.is_file()]
    record_job(path.with_suffix(RECORD_SUFFIX), stamp, inputs=inputs, outputs=[path], started=started, root=root)
    return path


def typed(frame: pd.DataFrame, schema: pa.DataFrameSchema, origin: str) -> pd.DataFrame:
    """The table with the types of its columns, if it is what its schema says.

    Raises:
        UserError: it is not; the message names the origin, the check and the first row that fails.
    """
    try:
        frame = frame.assign(**{name: _typed(frame[name], column) for name, column in schema.columns.items()})
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{origin}: not a tidy table ({error}); make it again from what was measured") from error
    try:
        return schema.validate(frame)
    except pa.errors.SchemaError as error:
        detail = "" if error.failure_cases is None else f"; first case: {_first_case(error)}"
        raise UserError(f"{origin}: {error.reason_code or 'check'} failed ({error.check}){detail}") from error


def _typed(values: pd.Series, column: pa.Column) -> pd.Series:
    """A column as its schema has it; what is empty in a file is missing where that is allowed."""
    known = pd.to_numeric(values.replace("", pd.NA)) if column.nullable else values
    return known.astype(column.dtype.type)


def _first_case(error: pa.errors.SchemaError) -> str:
    cases = error.failure_cases
    if not isinstance(cases, pd.DataFrame) or not len(cases):
        return str(cases)
    index = cases.iloc[0].get("index")
    if error.data is not None and index in getattr(error.data, "index", ()):
        row = error.data.loc[index]
        return f"{row['run']}, {row['metric']} = {row['value']}"
    return str(cases.iloc[0].to_dict())
