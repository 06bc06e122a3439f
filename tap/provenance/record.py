"""Records: what a job was given, what it made, by which code, on what, and when.

A record is a JSON file beside the files that it tells of. It names inputs and outputs by their path within the project
and by hash, and among the inputs are the records of those inputs: so records chain the results together, from a table
back to the data. It ends in a seal over its own text, so that a changed byte of the record itself is found as well. It
names no host and no absolute path, so that it can be published, and two people's records of the same run differ only
where the runs differ.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tap.config.data import DataConfig
from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.provenance.commit import commit_now
from tap.provenance.files import atomic_write, hash_files, remove_torn, sha256_file
from tap.provenance.fingerprint import hash_of, version

RECORD: Final = "run.json"
RECORD_SUFFIX: Final = ".record.json"
EQUIVALENCE_SUFFIX: Final = ".equivalence.json"
DATA_RECORD: Final = "record.json"
OUTSIDE: Final = "outside"
_MANIFEST = "manifest.json"
_PARTS = {"job", "inputs", "outputs", "fingerprint", "seal"}


@dataclass(frozen=True)
class Stamp:
    """What a record says of the job itself, rather than of its files. Jobs are handed theirs (`tap.jobs`).

    Attributes:
        job: kind of the job.
        fingerprint: of the code behind it.
        parameters: what else decides the result, as JSON values.
        libraries: distributions whose version is recorded.
    """

    job: str
    fingerprint: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()


BY_HAND: Final = Stamp("by hand")
"""Of a function that is called without its job: nobody looked at code and settings, so the result counts as stale."""


def write_record(
    folder: Path,
    spec: JobSpec,
    stamp: Stamp,
    inputs: Iterable[Path | str],
    outputs: Iterable[Path | str],
    started: datetime,
    extra: Mapping[str, Any] | None = None,
    *,
    device: str,
    threads: int,
    name: str = RECORD,
    root: Path | str = ".",
) -> Path:
    """Writes the record of a job on one run. The evidence of the task's data counts among its inputs.

    Args:
        folder: the run's folder.
        spec: the settings that the job used.
        stamp: what is to be said of the job.
        inputs: files that it read.
        outputs: files that it made.
        started: when it began, with a time zone.
        extra: further facts, such as realised token counts; JSON values.
        device: what it computed on, in words.
        threads: CPU threads that it used.
        name: file name of the record.
        root: the project's folder, to which paths are relative.

    Returns:
        The record's path.

    Raises:
        UserError: an input or output is missing, an input is not what its own record says, or the folder cannot be
            written.
    """
    return record_job(
        Path(folder) / name,
        stamp,
        inputs=[*inputs, *evidence_of_data(spec, root)],
        outputs=outputs,
        started=started,
        device=device,
        threads=threads,
        bases=(spec.data.root,),
        root=root,
        facts={
            "run": f"{spec.scale}/{spec.task}/{spec.method}/r{spec.rate:.2f}/{spec.variant}/s{spec.seed}",
            "spec": without_places(spec.model_dump(mode="json")),
            **(extra or {}),
        },
    )


def record_job(
    path: Path | str,
    stamp: Stamp,
    *,
    inputs: Iterable[Path | str],
    outputs: Iterable[Path | str],
    started: datetime,
    device: str | None = None,
    threads: int = 1,
    bases: Sequence[Path | str] = (),
    facts: Mapping[str, Any] | None = None,
    root: Path | str = ".",
) -> Path:
    """Writes a job's record after everything else that it made.

    Args:
        path: the record, in the folder of the files that the job made.
        stamp: what is to be said of the job.
        inputs: files that it read; the records that lie beside them and name them are added.
        outputs: files that it made.
        started: when it began, with a time zone.
        device: what it computed on, in words; the processor if not given.
        threads: CPU threads that it used.
        bases: folders of the user outside of the project, whose files are named ``outside/<folder>/...``.
        facts: further facts; JSON values.
        root: the project's folder, to which paths are relative.

    Returns:
        The record's path.

    Raises:
        UserError: an input or output is missing, an input is not what its own record says, or the record cannot be
            written.
    """
    path, outputs = Path(path), [Path(output) for output in outputs]
    ended = datetime.now(UTC)
    record = {
        "job": stamp.job,
        "parameters": without_places(dict(stamp.parameters)),
        "fingerprint": hash_of(stamp.fingerprint),
        "inputs": _describe_inputs([Path(name) for name in inputs], Path(root), bases),
        "outputs": describe_files(outputs, root, bases),
        "versions": {"python": platform.python_version(), **{library: version(library) for library in stamp.libraries}},
        "system": f"{platform.system()} {platform.machine()}",
        "device": device or processor(),
        "threads": threads,
        "started": started.astimezone(UTC).isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds"),
        "wall_seconds": round((ended - started).total_seconds(), 3),
        **({"commit": commit} if (commit := commit_now()) else {}),
        **(facts or {}),
    }
    written = atomic_write(path, sealed(record))
    equivalence_path(path).unlink(missing_ok=True)  # of the result that this one replaces
    remove_torn([*outputs, path])
    return written


def equivalence_path(record: Path) -> Path:
    """Where it would stand that a replay has shown a record's result to be that of later code."""
    return record.with_name(record.name.removesuffix(".json") + EQUIVALENCE_SUFFIX)


def sealed(content: Mapping[str, Any]) -> str:
    """The text of a record: its parts in order, with the seal that covers all of them."""
    return _with_seal(json.loads(json.dumps(content)))


def is_sealed(text: str, content: Mapping[str, Any]) -> bool | None:
    """Whether a record's text is the one that its seal was made for; None for the form before there were seals.

    Args:
        text: the record.
        content: its parts, as `parse_record` reads them.
    """
    if not {"seal", "job"} & content.keys():
        return None
    seal = content.get("seal")
    without = text.replace(f' "seal": "{seal}",\n', "", 1)  # what was hashed: writing it anew takes fifty times as long
    return hashlib.sha256(without.encode()).hexdigest() == seal


def parse_record(text: str) -> dict[str, Any] | None:
    """The parts of a record, or None if the text is other JSON.

    Raises:
        ValueError: the text is no JSON.
    """
    content = json.loads(text)
    return content if isinstance(content, dict) and len(_PARTS & content.keys()) > 2 else None


def describe_files(
    paths: Iterable[Path | str], root: Path | str = ".", bases: Sequence[Path | str] = ()
) -> dict[str, dict[str, Any]]:
    """Hash and size of files, by their name in records.

    Raises:
        UserError: a file is missing or cannot be read.
    """
    hashes = hash_files(map(Path, paths))
    files = {
        name_in_records(path, root, bases): {"sha256": digest, "bytes": path.stat().st_size}
        for path, digest in hashes.items()
    }
    return dict(sorted(files.items()))


def describe_folder(folder: Path | str, root: Path | str = ".", bases: Sequence[Path | str] = ()) -> dict[str, Any]:
    """Names and sizes of all files below a folder as one hash, for data of which a hash of every byte would take hours.

    Returns:
        By the folder's name in records: ``listing`` (sha256), ``files`` and ``bytes``.
    """
    lines, total = [], 0
    for place, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            path = Path(place) / file
            size = path.stat().st_size
            total += size
            lines.append(f"{path.relative_to(folder).as_posix()} {size}\n")
    listing = hashlib.sha256("".join(lines).encode()).hexdigest()
    return {name_in_records(folder, root, bases): {"listing": listing, "files": len(lines), "bytes": total}}


def name_in_records(path: Path | str, root: Path | str = ".", bases: Sequence[Path | str] = ()) -> str:
    """How records call a file: its path within the project, else ``outside/...`` without saying where that is."""
    absolute = Path(path).resolve()
    if absolute.is_relative_to(Path(root).resolve()):
        return absolute.relative_to(Path(root).resolve()).as_posix()
    for base in (Path(base).expanduser().resolve() for base in bases):
        if absolute.is_relative_to(base):
            return (Path(OUTSIDE) / base.name / absolute.relative_to(base)).as_posix()
    return f"{OUTSIDE}/{absolute.name}"


def records_beside(folder: Path) -> dict[str, Path]:
    """The records in a folder, by the names of the files that they say were made."""
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*.json")):
        record = read_record(path)
        if record is not None:
            found |= dict.fromkeys(record.get("outputs", {}), path)
    return found


def read_record(path: Path) -> dict[str, Any] | None:
    """The parts of the record in a file; None if it is not there, no record, or damaged."""
    try:
        return parse_record(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
    except ValueError:
        return None


def evidence_of_data(spec: JobSpec, root: Path | str = ".") -> list[Path]:
    """Files that say what a job's data are: the manifest of prepared ones, or findings about a person's own."""
    data = {spec.task: spec.data, **{task: other.data for task, other in (spec.mixed or {}).items()}}
    return [path for task, of in data.items() for path in _evidence(of, spec.scale, task, root)]


def identity_of_data(spec: JobSpec, root: Path | str = ".") -> dict[str, Any]:
    """What tells a task's data from others, as JSON values: hashes of its evidence, and what its record says of it.

    The record's own hash is no part of it: data that are prepared or looked at again are the same data. Empty where
    nothing says what the data are.
    """
    identity = _identity(_evidence(spec.data, spec.scale, spec.task, root))
    for task, other in (spec.mixed or {}).items():
        identity[task] = _identity(_evidence(other.data, spec.scale, task, root))
    return identity


def _evidence(data: DataConfig, scale: str, task: str, root: Path | str) -> list[Path]:
    places = f"{data.root}/{_MANIFEST}", f"results/{scale}/data/{task}.json"
    return [path for place in places if (path := Path(root) / place).is_file()]


def _identity(evidence: Iterable[Path]) -> dict[str, Any]:
    identity: dict[str, Any] = {}
    for path in evidence:
        record = read_record(path.parent / (DATA_RECORD if path.name == _MANIFEST else f"{path.stem}{RECORD_SUFFIX}"))
        identity[path.name] = {"sha256": sha256_file(path)}
        if record is not None:
            identity[path.name] |= {"made": made_by(record), "folders": list(record.get("folders", {}).values())}
    return identity


def without_places(value: Any) -> Any:
    """Settings with absolute paths cut to their last part."""
    if isinstance(value, dict):
        return {key: without_places(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(part) for part in value]
    if isinstance(value, str) and (Path(value).is_absolute() or value.startswith("~")):
        return f"{OUTSIDE}/{Path(value).name}"
    return value


def made_by(content: Mapping[str, Any]) -> str | None:
    """One hash of all that a record says its job made; None if that is nothing.

    A job that is done again may make the same bytes, and yet its record has other times. By this hash, which records
    note of the records that they name, results of the first time stay valid.
    """
    outputs = {name: facts.get("sha256") for name, facts in content.get("outputs", {}).items()}
    return hashlib.sha256(_text(outputs).encode()).hexdigest() if outputs else None


def processor() -> str:
    """The processor's model."""
    facts = Path("/proc/cpuinfo")
    if facts.is_file():
        for line in facts.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return "CPU"


def _describe_inputs(paths: Sequence[Path], root: Path, bases: Sequence[Path | str]) -> dict[str, dict[str, Any]]:
    """Hashes of inputs and of their records.

    Raises:
        UserError: an input is not the file that its record tells of.
    """
    files = describe_files(paths, root, bases)
    beside = {
        name: record for folder in {path.parent for path in paths} for name, record in records_beside(folder).items()
    }
    records = {beside[name] for name in files if name in beside}
    said = {name: facts for path in records for name, facts in (read_record(path) or {}).get("outputs", {}).items()}
    for name, facts in files.items():
        if name in said and said[name]["sha256"] != facts["sha256"]:
            raise UserError(
                f"{name}: differs from what {beside[name]} says of it (edited, or its job was killed); take it back, "
                "or delete it and have it made again"
            )
    described = describe_files(records, root, bases)
    for path in records:
        if (made := made_by(read_record(path) or {})) is not None:
            described[name_in_records(path, root, bases)]["made"] = made
    return dict(sorted((files | described).items()))


def _with_seal(content: Mapping[str, Any]) -> str:
    parts = {key: value for key, value in content.items() if key != "seal"}
    return _text({**parts, "seal": hashlib.sha256(_text(parts).encode()).hexdigest()})


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, sort_keys=True) + "\n"
