"""The way back from a number: run ids to metrics and records, and from their inputs to the runs before them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tap.errors import UserError
from tap.paper.profiles import FOLDER as PROFILES
from tap.paper.profiles import file_of_profile, id_of_profile

METRICS = "metrics.json"


@dataclass(frozen=True)
class Link:
    """One run (or probe) as its files tell of it.

    Attributes:
        id: run id, ``probes/<task>/<kind>`` or ``profiles/<device>/<shapes>/<task>``.
        folder: where it lies, relative to the project.
        metrics: what it measured; empty for a pre-training or a probe.
        records: contents of its records, by file name.
        before: ids of the runs whose files its jobs read.
    """

    id: str
    folder: str
    metrics: dict[str, Any]
    records: dict[str, dict[str, Any]]
    before: tuple[str, ...]


def folder_of(link: str, scale: str) -> str:
    """Folder of a run, probe or profile, relative to the project."""
    if link.startswith(f"{PROFILES}/"):
        return Path(file_of_profile(link)).parent.as_posix()
    return f"results/{scale}/{link}" if link.startswith("probes/") else f"results/{scale}/runs/{link}"


def id_of(file: str, scale: str) -> str | None:
    """The run, probe or profile that a file belongs to; None for other files."""
    parts = Path(file).parts
    if parts[:2] == ("results", PROFILES) and len(parts) == 5:
        return id_of_profile(file)
    if parts[:3] == ("results", scale, "runs") and len(parts) > 8:
        return "/".join(parts[3:8])
    if parts[:3] == ("results", scale, "probes") and len(parts) > 5:
        return "/".join(parts[2:5])
    return None


def read_chain(ids: Iterable[str], scale: str, root: Path) -> dict[str, Link]:
    """Runs and everything that they were made from, by id.

    Raises:
        UserError: a record or the metrics of a run cannot be read.
    """
    found: dict[str, Link] = {}
    waiting = sorted(set(ids))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = _read(name, scale, root)
        waiting += [other for other in found[name].before if other not in found]
    return dict(sorted(found.items()))


def upstream(name: str, chain: dict[str, Link]) -> set[str]:
    """A run's id with those of all runs that it was made from."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        link = waiting.pop()
        if link in seen:
            continue
        seen.add(link)
        waiting += chain[link].before if link in chain else ()
    return seen


def _read(name: str, scale: str, root: Path) -> Link:
    folder = folder_of(name, scale)
    metrics: dict[str, Any] = {}
    records: dict[str, dict[str, Any]] = {}
    profile = f"{Path(name).name}.record.json" if name.startswith(f"{PROFILES}/") else "*.json"
    for path in sorted((root / folder).glob(profile)):
        content = _json(path)
        if path.name == METRICS:
            metrics = content
        elif "fingerprint" in content:
            records[path.name] = content
    inputs = {file for record in records.values() for file in record.get("inputs", {})}
    before = {other for file in inputs if (other := id_of(file, scale)) is not None and other != name}
    return Link(name, folder, metrics, records, tuple(sorted(before)))


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as JSON ({error}); make the run again") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: must hold a JSON object; make the run again")
    return content
