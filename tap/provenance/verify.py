"""Walks from results back to the data and names what is not what its record says.

Four things can be wrong with a file. *edited*: its bytes are not those that the job made. *missing*: a record names
it and it is not there. *stale*: the code or the settings that made it, or a file that it was made from, have changed
since. *unknown*: it lies among the results and no record says which job made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.plan.results import verified_path
from tap.provenance.checkpoints import differing
from tap.provenance.equivalence import read_equivalence
from tap.provenance.files import hash_files
from tap.provenance.finding import MEND, Finding, Kind
from tap.provenance.finding_lines import finding_lines
from tap.provenance.ledger import Ledger, Record, read_ledger
from tap.provenance.record import OUTSIDE, Stamp, describe_folder, made_by, name_in_records, record_job

Staleness = Callable[[Mapping[str, Any]], str | None]
"""From the parts of a record to why its result is not what the workflow would make today; None if it is."""

SOURCES: Final = ("tap/", "workflow/")
"""Files of the project itself, which git keeps: they need no record."""

_TELLING: Final = ("model.safetensors", "metrics.json", "manifest.json", ".tex")
"""Files by which a person knows what a job made, rather than by its logs."""


@dataclass(frozen=True)
class Verification:
    """What was looked at and found.

    Attributes:
        ledger: the records.
        order: names of the records that were looked at, each after those that it builds on.
        files: hash of every file that was read, by name.
        findings: what is wrong, in that order, so that the first one is where the trouble starts.
        bytes: how much was read.
        shown: how replays have shown that results of other code are those of today's, by the record's name.
    """

    ledger: Ledger
    order: tuple[str, ...]
    files: dict[str, str]
    findings: tuple[Finding, ...]
    bytes: int
    shown: Mapping[str, str] = field(default_factory=dict)

    def summary(self) -> str:
        """How much was looked at, and what was let pass."""
        text = f"{len(self.files)} files ({self.bytes / 1e6:.1f} MB) are what their {len(self.order)} records say"
        if self.shown:
            text += f"; {len(self.shown)} made by earlier code, replayed with the same bits"
        passed = [f"{count} {kind}" for kind in Kind if (count := sum(f.kind == kind for f in self.findings))]
        return f"{text}; let pass: {', '.join(passed)}" if passed else text

    def unsound(self) -> set[str]:
        """Names of records that anything is wrong with, and of all that build on them."""
        unsound = {finding.record for finding in self.findings}
        for name in self.order:
            if self.ledger.sources(name) & unsound:
                unsound.add(name)
        return unsound & set(self.order)


def verify(
    cfg: ScaleConfig,
    staleness: Staleness,
    targets: Sequence[Path | str] = (),
    root: Path | str = ".",
    elsewhere: Mapping[str, Path] | None = None,
    strict: bool = False,
    results: Path | str | None = None,
) -> Verification:
    """Compares results, and everything that they were made from, with their records.

    Args:
        cfg: settings of the scale.
        staleness: judges each record by the code and the settings of today.
        targets: files to start from; all results of the scale if none is given.
        root: the project's folder.
        elsewhere: where some files are for now, by the name that they are to have.
        strict: whether a result of other code is stale although a replay has shown that today's computes the same.
        results: a copy of the scale's folder to verify in its place, such as ``published/desk``.

    Raises:
        UserError: a file cannot be read, or records name each other in a circle.
    """
    ledger = read_ledger(cfg, root, results)
    bases = [task.data.root for task in cfg.all_tasks.values()]
    names = [name_in_records(Path(root) / target, root, bases) for target in targets]
    wanted = [ledger.maker.get(name, name if name in ledger.records else "") for name in names]
    order = ledger.in_order([name for name in wanted if name] if targets else None)
    named = {file for name in order for file in (name, *ledger.records[name].inputs, *ledger.records[name].outputs)}
    places = {file: place for file in sorted(named) if (place := ledger.place(file)) is not None}
    places |= {file: place for file, place in (elsewhere or {}).items() if file in places}
    present = {file: place for file, place in places.items() if place.is_file()}
    hashes = hash_files(present.values())
    files = {file: hashes[place] for file, place in present.items()}
    walk = _Walk(staleness, ledger, places, files, strict)
    for name, record in zip(names, wanted, strict=True):
        if not record:
            walk.without_record(name)
    if not targets:
        for name in (*ledger.unreadable, *ledger.files):
            walk.stray(name)
    for name in order:
        walk.look_at(name)
    if not targets and results is None:
        for path, stage in differing(cfg, root):
            walk.copy(path.as_posix(), stage)
    size = sum(places[file].stat().st_size for file in files)
    return Verification(ledger, tuple(order), files, tuple(walk.findings), size, walk.shown)


def require(verification: Verification, allowed: Iterable[Kind] = (), everything: bool = False) -> None:
    """Refuses what is wrong.

    Args:
        verification: what was found.
        allowed: kinds of findings to let pass.
        everything: name every finding, where those of one kind and folder share a line otherwise.

    Raises:
        UserError: names the first finding that is not allowed, how to mend it, and what else there is.
    """
    findings = [finding for finding in verification.findings if finding.kind not in set(allowed)]
    if findings:
        first, *others = finding_lines(findings, everything)
        raise UserError("\n".join([f"{first}; {MEND[findings[0].kind]}", *(f"  also {other}" for other in others)]))


def write_verified(
    cfg: ScaleConfig,
    staleness: Staleness,
    task: str,
    targets: Sequence[Path | str],
    root: Path | str = ".",
) -> Path:
    """Verifies what a task's tables are made from and keeps the list: a record of all files behind them.

    Raises:
        UserError: anything is wrong; the list is not written then.
    """
    started, path = datetime.now(UTC), Path(root) / verified_path(cfg.scale, task)
    path.unlink(missing_ok=True)
    found = verify(cfg, staleness, targets, root)
    require(found)
    places = [found.ledger.place(name) for name in sorted(found.files)]
    return record_job(
        path,
        Stamp("verify", parameters={"task": task, "targets": [str(target) for target in targets]}),
        inputs=[place for place in places if place is not None],
        outputs=[],
        started=started,
        bases=[settings.data.root for settings in cfg.all_tasks.values()],
        root=root,
    )


class _Walk:
    """Goes through records in order and collects what is wrong, each file once."""

    def __init__(
        self, staleness: Staleness, ledger: Ledger, places: dict[str, Path], files: dict[str, str], strict: bool
    ) -> None:
        self.staleness, self.ledger, self.places, self.files = staleness, ledger, places, files
        self.strict = strict
        self.shown: dict[str, str] = {}
        self.findings: list[Finding] = []
        self._found: set[tuple[str, Kind]] = set()

    def look_at(self, name: str) -> None:
        """Compares one record with its seal, its inputs, the workflow of today, and its outputs."""
        record = self.ledger.records[name]
        if record.seal is False:  # what else it says means nothing
            self._add(name, Kind.EDITED, "a record whose seal does not fit its text", name)
        else:
            self._is_current(record)
        for file, facts in record.outputs.items():
            if file not in self.places:
                continue
            if file not in self.files:
                self._add(file, Kind.MISSING, f"{name} names it", name)
            elif self.files[file] != facts.get("sha256"):
                self._add(file, Kind.EDITED, f"not what {name} says that its job made", name)

    def _is_current(self, record: Record) -> None:
        """Compares what a record was made from, and by what, with what is there now."""
        name = record.name
        for file, facts in record.inputs.items():
            self._input(record, file, facts)
        reason = self.staleness(record.content)
        if reason is not None and not self._is_replayed(record):
            self._stale(name, reason)
        for folder, facts in record.content.get("folders", {}).items():
            place = self.ledger.place(folder)
            if place is not None and next(iter(describe_folder(place).values()))["listing"] != facts["listing"]:
                self._add(folder, Kind.STALE, f"names or sizes of its files are not those that {name} saw", name)

    def _is_replayed(self, record: Record) -> bool:
        """Whether nothing but the code differs, and a replay has shown that today's computes the same."""
        place = self.ledger.place(record.name)
        found = None if self.strict or place is None else read_equivalence(place)
        if found is None or found.before != record.content.get("fingerprint"):
            return False
        if self.staleness({**record.content, "fingerprint": found.now}) is not None:  # with the code that was shown
            return False
        self.shown[record.name] = str(found)
        return True

    def _input(self, record: Record, file: str, facts: Mapping[str, Any]) -> None:
        name, expected, maker = record.name, str(facts.get("sha256", "")), self.ledger.maker.get(file)
        if maker is not None:  # looked at before this one
            right = self.ledger.records[maker].outputs[file].get("sha256") == self.files.get(file)
            if right and expected != self.files[file]:
                self._stale(name, f"made from an earlier {file}")
        elif file not in self.places:
            return
        elif file not in self.files:
            self._add(file, Kind.MISSING, f"{name} was made from it", name)
        elif file in self.ledger.records or file.startswith((*SOURCES, f"{OUTSIDE}/")):
            if expected != self.files[file] and not self._made_the_same_again(record, file, facts):
                self._stale(name, f"made from an earlier {file}")
        else:
            self._add(file, Kind.UNKNOWN, f"{name} was made from it, and no record says which job made it", name)

    def _made_the_same_again(self, record: Record, file: str, facts: Mapping[str, Any]) -> bool:
        """Whether an input is the record of a job that was done again since, and made the same bytes."""
        other = self.ledger.records.get(file)
        if other is None or not other.seal or "made" not in facts or made_by(other.content) != facts["made"]:
            return False
        return str(other.content.get("started", "")) >= str(record.content.get("ended", "~"))

    def without_record(self, name: str) -> None:
        """A file that was asked for and that no record names."""
        place = self.ledger.place(name)
        if place is None or not place.is_file():
            self._add(name, Kind.MISSING, "it was asked for")
        elif name in self.ledger.unreadable:
            self._add(name, Kind.EDITED, "not readable as JSON")
        else:
            self._add(name, Kind.UNKNOWN, "no record says which job made it")

    def stray(self, name: str) -> None:
        """A file among the results."""
        if name not in self.ledger.maker and name not in self.ledger.records:
            self.without_record(name)

    def copy(self, name: str, stage: str) -> None:
        """A checkpoint for DVC that is not its run's: edited or old, which cannot be told; the run has its own."""
        self._add(name, Kind.STALE, f"not the weights that its run's record names; `tap dvc collect {stage}` renews it")

    def _stale(self, name: str, reason: str) -> None:
        outputs = sorted(self.ledger.records[name].outputs, key=lambda file: (not file.endswith(_TELLING), file))
        self._add(outputs[0] if outputs else name, Kind.STALE, reason, name)

    def _add(self, path: str, kind: Kind, reason: str, record: str = "") -> None:
        if (path, kind) not in self._found:
            self._found.add((path, kind))
            self.findings.append(Finding(path, kind, reason, record))
