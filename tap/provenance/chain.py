"""Nothing that is up to date hangs in the air: the chain behind every target, checked when a workflow starts.

Snakemake does not look at a missing file between two that exist, nor at what is in a file. So before it plans, every
record of the scale is compared with the disk. A file that is missing although a record names it, or that is not what
its record says, makes its job *unsound*. For an unsound job a *note* is written, a small file that the job's rule has
among its inputs. It is newer than whatever the job made, so that the job runs again, as for any newer input; when it
has run, its files are newer than the note. A note is newer than the files of a job that somebody put back as they
were, too; then it is withdrawn.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Container, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tap.config.scale import ScaleConfig
from tap.provenance.files import atomic_write
from tap.provenance.hash_cache import HashCache
from tap.provenance.ledger import Ledger, read_ledger
from tap.provenance.locks import is_held
from tap.provenance.record import name_in_records
from tap.provenance.root_hash import SHOWN_ON, root_hash
from tap.provenance.verify import Staleness

NOTES: Final = Path(".snakemake") / "remade"
SOURCES: Final = ("tap/", "workflow/")
OF_DATA: Final = ("prepare", "check")
"""Kinds of jobs that see to data."""
WORKFLOW_LOCK: Final = Path(".tap") / "workflow.lock"


class Chain:
    """What records say beside what is on disk, at one moment.

    Args:
        cfg: settings of the scale.
        root: the project's folder.
        staleness: judges the records of data by the code of today. Data may have been prepared by hand or for another
            scale, so Snakemake need not know by which code; of everything else it does.

    Attributes:
        ledger: the records.
        wrong: reasons, by name of the file or record.

    Raises:
        UserError: a file cannot be read.
    """

    def __init__(self, cfg: ScaleConfig, root: Path | str = ".", staleness: Staleness | None = None) -> None:
        self.root = Path(root)
        self.ledger = read_ledger(cfg, root)
        self._bases = [task.data.root for task in cfg.all_tasks.values()]
        self.wrong = dict.fromkeys(self.ledger.unreadable, "not readable as JSON") | _wrong(self.ledger, self.root)
        self.wrong = _outdated_pages(self.ledger, self.wrong) | self.wrong
        for name, record in self.ledger.records.items():
            reason = staleness(record.content) if staleness is not None and record.job in OF_DATA else None
            if reason is not None:
                self.wrong.setdefault(name, reason)

    def reason(self, outputs: Iterable[Path | str]) -> str | None:
        """Why a job would have to run again although Snakemake may see nothing; None if there is no such reason.

        Args:
            outputs: all files that the job's rule declares.
        """
        names = [self._name(output) for output in outputs]
        records = {self.ledger.maker.get(name, name) for name in names} & self.ledger.records.keys()
        made = [file for record in sorted(records) for file in (record, *self.ledger.records[record].outputs)]
        for name in (*names, *made):
            if name in self.wrong:
                return f"{name}: {self.wrong[name]}"
        there = [name for name in names if name in made or (self.root / name).is_file()]
        for name in names if there else ():
            if name not in there:
                return f"{name}: is not there"
            if name not in made:
                return f"{name}: no record says that its job ended"
        return None

    def started(self, outputs: Iterable[Path | str]) -> str:
        """When the job that made some files began, as its records have it; the earliest of several."""
        names = [self._name(output) for output in outputs]
        records = {self.ledger.maker.get(name, name) for name in names} & self.ledger.records.keys()
        return min((str(self.ledger.records[name].content.get("started", "")) for name in records), default="")

    def summary(self) -> str:
        """What is wrong, in one line; empty if nothing is."""
        if not self.wrong:
            return ""
        shown = "; ".join(f"{name}: {reason}" for name, reason in sorted(self.wrong.items())[:3])
        others = f"; and {len(self.wrong) - 3} more" if len(self.wrong) > 3 else ""
        return f"Missing, or not what the records say: {shown}{others}. Their jobs run again where a target needs them."

    def _name(self, output: Path | str) -> str:
        path = Path(output)
        return name_in_records(path, self.root, self._bases) if path.is_absolute() else path.as_posix()


class Notes:
    """The notes that repeat unsound jobs, in Snakemake's own folder: they go with what it remembers of the inputs.

    Args:
        chain: the chain as it is; None where notes are only read, as in a job's own process.
        root: the project's folder. While another workflow runs there, no note is written: its jobs are under way.
    """

    def __init__(self, chain: Chain | None, root: Path | str = ".") -> None:
        self.chain, self.root = chain, Path(root)
        self._only_reads = chain is None or is_held(self.root / WORKFLOW_LOCK)

    def of(self, outputs: Iterable[Path | str]) -> list[str]:
        """The note of a job as an input of its rule: one path within the project, or none.

        Args:
            outputs: all files that the job's rule declares.
        """
        names = sorted(map(str, outputs))
        note = NOTES / f"{names[0].replace('/', '+')}.json"
        path = self.root / note
        if self.chain is not None and not self._only_reads:
            _renew(path, self.chain.reason(names), self.chain.started(names))
        return [note.as_posix()] if path.is_file() else []


def _outdated_pages(ledger: Ledger, wrong: Container[str]) -> dict[str, str]:
    """An audit that shows the hash over other records than those of now: a job made the same bytes once more, say."""
    pages = {
        name: ledger.root / file
        for name, record in ledger.records.items()
        if record.job == SHOWN_ON
        for file in record.outputs
        if file.endswith(".json") and file not in wrong
    }
    now = root_hash(ledger) if pages else ""
    shown = {name: json.loads(path.read_text(encoding="utf-8")).get("root_hash") for name, path in pages.items()}
    reason = "shows the root hash of other records than there are now"
    return {name: reason for name, told in shown.items() if told and told != now}


def _renew(path: Path, reason: str | None, started: str) -> None:
    """Writes a job's note if it is unsound, else withdraws the one that it has not run for.

    A note is written at every look, so that its bytes differ from those that an earlier run of the job read.

    Args:
        path: the note.
        reason: why the job is unsound; None if it is sound.
        started: when the job that made the files began.
    """
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    has_run = before is not None and started >= before["written"]
    if reason is not None:
        read = before is not None and (has_run or before["read"])
        now = datetime.now(UTC).isoformat(timespec="seconds")  # as records have it
        atomic_write(path, json.dumps({"reason": reason, "written": now, "read": read, "look": time.time_ns()}))
    elif before is not None and not has_run:
        if before["read"]:  # Snakemake remembers it as an input: it stays, older than anything
            os.utime(path, (0, 0))
        else:
            path.unlink()


def _wrong(ledger: Ledger, root: Path) -> dict[str, str]:
    """Files and records that are not as a record says, with the reason."""
    expected = {file: facts for record in ledger.records.values() for file, facts in record.outputs.items()}
    named = {file for record in ledger.records.values() for file in (*record.inputs, *record.outputs)}
    places = {file: place for file in sorted(named) if (place := ledger.place(file)) and not file.startswith(SOURCES)}
    there = {file: place for file, place in places.items() if place.is_file()}
    hashes = HashCache(root).hashes(there[file] for file in expected if file in there)
    wrong = {file: "is not there" for file in places if file not in there}
    for file, facts in expected.items():
        if file in there and hashes[there[file]] != facts.get("sha256"):
            wrong[file] = f"not what {ledger.maker[file]} says that its job made"
    for name, record in ledger.records.items():
        if record.seal is False:
            wrong[name] = "a record whose seal does not fit its text"
            continue
        for file, facts in record.inputs.items():
            if file in expected and file not in wrong and expected[file].get("sha256") != facts.get("sha256"):
                wrong[name] = f"made from an earlier {file}"
    return wrong
