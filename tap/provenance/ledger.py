"""All records of a scale as one graph: which job made a file, from what, and in which order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.provenance.record import DATA_RECORD, OUTSIDE, is_sealed, name_in_records, parse_record
from tap.runs import SCALES

CHECKPOINTS = "checkpoints"
"""Folder of a scale in which DVC keeps the weights (`tap.provenance.checkpoints`): copies, no results of their own."""
PROFILES = "profiles"
"""Folder of the profiles of machines, beside those of scales; a published scale has those that it shows in its own."""
PUBLISHED = {"tables": Path("paper_tables"), "figures": Path("paper_figures")}
"""Where a reader looks, by the folder of a scale's results that is copied there."""


@dataclass(frozen=True)
class Record:
    """What a job left behind.

    Attributes:
        name: the record's own name, as records call files.
        content: its parts.
        seal: whether its text is what the seal says; None if it has none, as those of an earlier form.
    """

    name: str
    content: Mapping[str, Any]
    seal: bool | None

    @property
    def job(self) -> str:
        """Kind of the job; empty in records of an earlier form."""
        return str(self.content.get("job", ""))

    @property
    def inputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Files that the job read."""
        return self.content.get("inputs", {})

    @property
    def outputs(self) -> Mapping[str, Mapping[str, Any]]:
        """Files that the job made."""
        return self.content.get("outputs", {})


@dataclass(frozen=True)
class Ledger:
    """The records of a scale.

    Attributes:
        root: the project's folder.
        records: by name.
        maker: name of the record that names a file among what its job made, by the file's name.
        unreadable: JSON files that are none any more.
        files: every file in the scale's results, with the data and the published tables that belong to them.
        outside: where the files are whose names start with ``outside/``, or with the scale's folder if its results are
            read from elsewhere.
    """

    root: Path
    records: Mapping[str, Record]
    maker: Mapping[str, str]
    unreadable: tuple[str, ...]
    files: tuple[str, ...]
    outside: Mapping[str, Path] = field(default_factory=dict)

    def place(self, name: str) -> Path | None:
        """Where a file is; None for one outside of the project whose folder the settings do not name."""
        for known, path in self.outside.items():
            if name == known or name.startswith(f"{known}/"):
                return path / name[len(known) + 1 :] if name != known else path
        return None if name.startswith(f"{OUTSIDE}/") else self.root / name

    def sources(self, name: str) -> set[str]:
        """Names of the records that a record builds on directly."""
        inputs = self.records[name].inputs
        return {source for file in inputs if (source := file if file in self.records else self.maker.get(file))} - {
            name
        }

    def in_order(self, names: Iterable[str] | None = None) -> list[str]:
        """Names of records, each after those that it builds on; what the given ones build on included.

        Args:
            names: the records wanted; None for all.

        Raises:
            UserError: records name each other in a circle.
        """
        wanted = set(self.records if names is None else names)
        waiting = list(wanted)
        while waiting:
            new = self.sources(waiting.pop()) - wanted
            wanted |= new
            waiting += new
        sorter = TopologicalSorter({name: self.sources(name) for name in wanted})
        try:
            sorter.prepare()
        except CycleError as error:
            raise UserError(f"{error.args[1][0]}: its record and others name each other in a circle; edited") from error
        order: list[str] = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready())
            order += ready
            sorter.done(*ready)
        return order


def read_ledger(cfg: ScaleConfig, root: Path | str = ".", results: Path | str | None = None) -> Ledger:
    """Reads every record that belongs to a scale: in its results, with its data, and among the published tables.

    Args:
        cfg: settings of the scale.
        root: the project's folder.
        results: a copy of the scale's folder, such as ``published/desk``, to read in its place. Its files keep the
            names that records call them. Tables where a reader looks are left out, as they are of the folder itself.

    Raises:
        UserError: a file cannot be read.
    """
    root = Path(root)
    bases = sorted({Path(task.data.root).expanduser() for task in cfg.all_tasks.values()})
    weights = [Path(task.pretrain.weights).expanduser() for task in cfg.all_tasks.values() if task.pretrain.weights]
    outside = {f"{OUTSIDE}/{path.name}": path for path in (*bases, *weights)}
    own = f"results/{cfg.scale}"
    folder = root / own if results is None else Path(results)
    is_copy = folder.resolve() != (root / own).resolve()
    if is_copy:
        outside[own] = folder
    prepared = [root / base for base in bases if (root / base / DATA_RECORD).is_file()]
    of_data = [path for base in prepared for path in _files_below(base)]
    records: dict[str, Record] = {}
    unreadable: list[str] = []
    found = {f"{own}/{path.relative_to(folder).as_posix()}": path for path in _files_below(folder, without=CHECKPOINTS)}
    # Profiles belong to machines: those that this scale's records name are looked at with them.
    measured = folder / PROFILES if is_copy else root / "results" / PROFILES
    if is_copy:
        found.pop(f"{own}/README.md", None)  # says what the copy is
        outside[f"results/{PROFILES}"] = measured
    for path in [*_files_below(measured)] if measured.is_dir() else []:
        found.pop(f"{own}/{PROFILES}/{path.relative_to(measured).as_posix()}", None)
        found[f"results/{PROFILES}/{path.relative_to(measured).as_posix()}"] = path
    # Of a data folder only the one record is read: its own JSON files may be large.
    readable = {*found, *(name_in_records(base / DATA_RECORD, root, bases) for base in prepared)}
    found |= {name_in_records(path, root, bases): path for path in of_data}
    for name, path in found.items():
        if path.suffix == ".json" and name in readable:
            _take_in(name, path, records, unreadable)
    _leave_out_other_profiles(found, records)
    names = list(found)
    copied = PUBLISHED.values() if results is None else ()
    published = {name_in_records(path, root): path for place in copied for path in _files_below(root / place)}
    for name, path in published.items():
        if path.suffix == ".json":
            _take_in(name, path, records, unreadable)
    for name in [name for name in published if name in records and _is_of_another_scale(records[name], cfg.scale)]:
        for file in (name, *records.pop(name).outputs):
            published.pop(file, None)
    names += published
    maker = {file: name for name, record in records.items() for file in record.outputs}
    return Ledger(root, records, maker, tuple(unreadable), tuple(sorted(names)), outside)


def _leave_out_other_profiles(found: dict[str, Path], records: dict[str, Record]) -> None:
    """Forgets the profiles that no result of the scale was made from."""
    of_profiles = {name: record for name, record in records.items() if name.startswith(f"results/{PROFILES}/")}
    used = {file for name, record in records.items() if name not in of_profiles for file in record.inputs}
    for name, record in of_profiles.items():
        if not used.intersection(record.outputs):
            for file in (name, *record.outputs):
                found.pop(file, None)
            records.pop(name)
    for name in [name for name in found if name.startswith(f"results/{PROFILES}/")]:
        if name not in records and not any(name in record.outputs for record in records.values()) and name not in used:
            found.pop(name)


def _files_below(folder: Path, without: str | None = None) -> Iterator[Path]:
    """Files that are not hidden, in order; hidden ones are those that a killed writer left."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name[0] != "." and not (without == name and Path(place) == folder)
        )
        yield from (Path(place) / name for name in sorted(files) if name[0] != ".")


def _is_of_another_scale(record: Record, scale: str) -> bool:
    other = record.content.get("parameters", {}).get("scale")
    return record.seal is not False and other in SCALES and other != scale


def _take_in(name: str, path: Path, records: dict[str, Record], unreadable: list[str]) -> None:
    """Adds a JSON file to the records if it is one, or to the unreadable ones if it is damaged."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        content = parse_record(text)
        if content is not None:
            parts = [content.get("inputs", {}), content.get("outputs", {})]
            if not all(isinstance(facts, dict) for part in parts for facts in part.values()):
                raise ValueError("files without facts")
            records[name] = Record(name, content, is_sealed(text, content))
    except FileNotFoundError:
        pass  # removed since it was listed, by a job that runs beside this one and makes it anew
    except (ValueError, AttributeError):
        unreadable.append(name)
