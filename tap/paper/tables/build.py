"""Builds a table by its name: from the results of a scale to `.tex`, `.csv` and the comparison with the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from tap.errors import UserError
from tap.paper.evidence import Evidence
from tap.paper.listing import stem_of
from tap.paper.reported import reported_path
from tap.paper.tables.compare import compare
from tap.paper.tables.main_table import main_table
from tap.paper.tables.names import groups, main_tables, names, profiled
from tap.paper.tables.render import csv_text, to_csv, to_latex
from tap.paper.tables.report import to_markdown
from tap.paper.tables.table import Table, fill
from tap.plan.profiles import profiles_in_use
from tap.plan.results import files_behind, tidy_path
from tap.provenance.files import atomic_write
from tap.provenance.record import BY_HAND, RECORD_SUFFIX, Stamp, record_job

SUFFIXES = (".tex", ".csv", ".compare.csv", ".compare.md")


def table_name(label: str) -> str:
    """File stem of a table's label.

    Raises:
        UserError: there is none; the message names all, the nearest first.
    """
    return stem_of("table", label, names())


def load_table(name: str) -> Table:
    """The table called so (``tab_cls``; the LaTeX label ``tab:cls`` is the same); errors as `table_name`."""
    stem = table_name(name)
    if stem in main_tables():
        return replace(main_table(main_tables()[stem]), name=stem)
    return replace(import_module(f"tap.paper.tables.{stem}").TABLE, name=stem)


def render_table(label: str, evidence: Evidence) -> dict[str, bytes]:
    """Contents of a table's files by suffix (`SUFFIXES`), a pure function of the results: nothing is written.

    A verification that builds tables anew compares these bytes with those of the files.

    Args:
        label: as for `build_table`.
        evidence: the results, such as ``Evidence("desk", root)``.

    Raises:
        UserError: as `build_table`, but for writing.
    """
    filled = fill(load_table(label), evidence)
    frame = compare(filled)
    texts = (to_latex(filled), to_csv(filled), csv_text(frame), to_markdown(filled, frame))
    return {suffix: text.encode() for suffix, text in zip(SUFFIXES, texts, strict=True)}


def files_read(label: str, evidence: Evidence) -> list[Path]:
    """Files that a table is made from, as far as they are there: by the group of inputs that it declares.

    Raises:
        UserError: no such table, or the tidy table of a main table is not there.
    """
    stem, root, scale = table_name(label), evidence.root, evidence.scale
    group = next(group for group, tables in groups().items() if stem in tables)
    tasks = [main_tables()[stem]] if group == "runs" else list(evidence.settings.tasks)
    if group == "runs" and not (path := root / tidy_path(scale, tasks[0])).is_file():
        raise UserError(f"{path}: is not there; `tap gather {tasks[0]} --scale {scale}` makes it")
    profiles = [root / path for path in profiles_in_use(evidence.settings, profiled(stem, tasks), root)]
    return there_behind(group, evidence, tasks) + profiles


def there_behind(group: str, evidence: Evidence, tasks: Sequence[str]) -> list[Path]:
    """What tables and figures of a group are made from, as far as it is there.

    Args:
        group: what they read, as they declare it.
        evidence: the results.
        tasks: whose results.
    """
    files = [path for part in files_behind(evidence.settings, group, tasks).values() for path in part]
    return [path for file in files if (path := evidence.root / file).is_file()]


def build_table(
    label: str, scale: str, out_folder: Path | str, root: Path | str = ".", stamp: Stamp = BY_HAND
) -> list[Path]:
    """Writes ``<label>.tex``, ``.csv``, ``.compare.csv`` and ``.compare.md``, and a record of how they were made.

    Beside the tidy tables only the per-image values that these name are read.

    Args:
        label: ``tab_cls``; the LaTeX label ``tab:cls`` is the same.
        scale: whose runs are shown.
        out_folder: where the files go.
        root: the project's folder.

    Returns:
        The files.

    Raises:
        UserError: no such table, no tidy table yet, settings or runs that cannot be read or are not what their own
            records say, or a folder that cannot be written.
    """
    started, root = datetime.now(UTC), Path(root)
    evidence, name = Evidence(scale, root), table_name(label)
    read, contents = files_read(name, evidence), render_table(name, evidence)
    files = [atomic_write(Path(out_folder) / f"{name}{suffix}", content) for suffix, content in contents.items()]
    printed = reported_path(name)
    record_job(
        Path(out_folder) / f"{name}{RECORD_SUFFIX}",
        stamp,
        inputs=[*([printed] if printed.is_file() else []), *read],
        outputs=files,
        started=started,
        root=root,
    )
    return files
