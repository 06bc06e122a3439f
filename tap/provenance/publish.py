"""Tables where a reader looks: a copy of those of the scale that `params.yaml` names."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tap.errors import UserError
from tap.provenance.files import atomic_write
from tap.provenance.ledger import PUBLISHED
from tap.provenance.record import RECORD_SUFFIX, read_record, record_job


def tables_folder(scale: str) -> Path:
    """Where a scale's tables are, relative to the project's root."""
    return Path("results") / scale / "tables"


def publish_table(name: str, scale: str, root: Path | str = ".") -> list[Path]:
    """Copies all files of a table of a scale to `paper_tables`, with a record of it.

    Args:
        name: file stem, such as ``tab_cls``.
        scale: whose table.
        root: the project's folder.

    Raises:
        UserError: the table is not made, or is not what its record says.
    """
    started, root = datetime.now(UTC), Path(root)
    record = tables_folder(scale) / f"{name}{RECORD_SUFFIX}"
    content = read_record(root / record)
    if content is None:
        raise UserError(f"{record}: is not there, or no record; `snakemake {record}` makes the table")
    sources = [root / file for file in content["outputs"]]
    missing = [source for source in sources if not source.is_file()]
    if missing:
        raise UserError(f"{missing[0]}: is not there; `snakemake {missing[0]}` makes it")
    files = [atomic_write(root / PUBLISHED / source.name, source.read_bytes()) for source in sources]
    record_job(
        root / PUBLISHED / f"{name}{RECORD_SUFFIX}",
        "publish",
        parameters={"table": name, "scale": scale},
        inputs=sources,
        outputs=files,
        started=started,
        fingerprint="",
        root=root,
    )
    return files
