"""`run.json`: what a job was given, what it made, by which code, on what, and when.

A record names no host and no absolute path, so that it can be published, and two people's records of the same run
differ only where the runs differ.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tap.config.schema import JobSpec
from tap.provenance.files import atomic_write, sha256_file
from tap.provenance.fingerprint import version

RECORD = "run.json"
LIBRARIES = ("numpy", "safetensors", "timm", "torch", "torchvision")


def write_record(
    folder: Path,
    spec: JobSpec,
    inputs: Iterable[Path | str],
    outputs: Iterable[Path | str],
    started: datetime,
    extra: Mapping[str, Any] | None = None,
    *,
    fingerprint: str,
    device: str,
    threads: int,
    name: str = RECORD,
    libraries: Iterable[str] = LIBRARIES,
    root: Path | str = ".",
) -> Path:
    """Writes a job's record after everything else that it made.

    Args:
        folder: the run's folder.
        spec: the settings that the job used.
        inputs: files that it read.
        outputs: files that it made.
        started: when it began, with a time zone.
        extra: further facts, such as realised token counts; JSON values.
        fingerprint: of the code behind the job.
        device: what it computed on, in words.
        threads: CPU threads that it used.
        name: file name of the record.
        libraries: distributions whose version is recorded.
        root: the project's folder, to which paths are relative.

    Returns:
        The record's path.

    Raises:
        UserError: an input or output is missing, or the folder cannot be written.
    """
    ended = datetime.now(UTC)
    record = {
        "run": f"{spec.scale}/{spec.task}/{spec.method}/r{spec.rate:.2f}/{spec.variant}/s{spec.seed}",
        "spec": _without_places(spec.model_dump(mode="json")),
        "fingerprint": fingerprint,
        "inputs": describe_files(inputs, root),
        "outputs": describe_files(outputs, root),
        "versions": {"python": platform.python_version(), **{library: version(library) for library in libraries}},
        "device": device,
        "threads": threads,
        "started": started.astimezone(UTC).isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds"),
        "wall_seconds": round((ended - started).total_seconds(), 3),
        **(extra or {}),
    }
    return atomic_write(Path(folder) / name, json.dumps(record, indent=1, sort_keys=True) + "\n")


def describe_files(paths: Iterable[Path | str], root: Path | str = ".") -> dict[str, dict[str, Any]]:
    """Hash and size of files, by their path within the project.

    A file elsewhere (a user's own weights) goes by its name alone: ``outside/<name>``.

    Raises:
        UserError: a file is missing or cannot be read.
    """
    files = {}
    for path in map(Path, paths):
        digest = sha256_file(path)
        files[_within(path, Path(root))] = {"sha256": digest, "bytes": path.stat().st_size}
    return dict(sorted(files.items()))


def _within(path: Path, root: Path) -> str:
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return f"outside/{path.name}"


def _without_places(value: Any) -> Any:
    """Settings with absolute paths cut to their last part."""
    if isinstance(value, dict):
        return {key: _without_places(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_places(part) for part in value]
    if isinstance(value, str) and (Path(value).is_absolute() or value.startswith("~")):
        return f"outside/{Path(value).name}"
    return value
