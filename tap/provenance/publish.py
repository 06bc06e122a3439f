"""Tables and figures where a reader looks: copies of those of the scale that `params.yaml` names."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tap.errors import UserError
from tap.provenance.files import atomic_write
from tap.provenance.ledger import PUBLISHED
from tap.provenance.record import RECORD_SUFFIX, Stamp, read_record, record_job


def tables_folder(scale: str) -> Path:
    """Where a scale's tables are, relative to the project's root."""
    return Path("results") / scale / "tables"


def figures_folder(scale: str) -> Path:
    """Where a scale's figures are, relative to the project's root."""
    return Path("results") / scale / "figures"


def published_folder(scale: str) -> Path:
    """Where the committed results of a scale are, which no rule reads, relative to the project's root."""
    return Path("published") / scale


def published(name: str) -> Path:
    """The record of a published table or figure, relative to the project's root.

    Args:
        name: file stem, such as ``tab_cls`` or ``fig_insight``.
    """
    return PUBLISHED["figures" if name.startswith("fig_") else "tables"] / f"{name}{RECORD_SUFFIX}"


def publish(name: str, scale: str, root: Path | str = ".") -> list[Path]:
    """Copies all files of a table or figure of a scale to `paper_tables` or `paper_figures`, with a record of it.

    Args:
        name: file stem, such as ``tab_cls`` or ``fig_insight``.
        scale: whose.
        root: the project's folder.

    Raises:
        UserError: it is not made, or is not what its record says.
    """
    started, root, copied = datetime.now(UTC), Path(root), published(name)
    kind = "figure" if copied.parent == PUBLISHED["figures"] else "table"
    folder = figures_folder(scale) if kind == "figure" else tables_folder(scale)
    record = folder / f"{name}{RECORD_SUFFIX}"
    content = read_record(root / record)
    if content is None:
        raise UserError(f"{record}: is not there, or no record; `snakemake {record}` makes the {kind}")
    sources = [root / file for file in content["outputs"]]
    missing = [source for source in sources if not source.is_file()]
    if missing:
        raise UserError(f"{missing[0]}: is not there; `snakemake {missing[0]}` makes it")
    files = [atomic_write(root / copied.parent / source.name, source.read_bytes()) for source in sources]
    record_job(
        root / copied,
        Stamp("publish", parameters={kind: name, "scale": scale}),
        inputs=sources,
        outputs=files,
        started=started,
        root=root,
    )
    return files
