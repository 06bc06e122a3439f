"""`tap recertify`: runs whose code has changed are shown to be those of today's code, or named with what differs.

For each, the commit that made it and today's tree replay parts of its job on this machine, and every bit is compared
(`docs/recertify.md`). Equal: an equivalence beside the record says so. Different: nothing is written, and the workflow
makes the run again. Records are never rewritten.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tap.config.scale import ScaleConfig
from tap.errors import UserError
from tap.jobs.staleness import OTHER_CODE, Today
from tap.plan.joint import JointRun, joint_tasks
from tap.plan.specs import job_spec
from tap.provenance.commit import commit_now
from tap.provenance.equivalence import EQUIVALENCE, REPLAYED, holds
from tap.provenance.fingerprint import SOURCES
from tap.provenance.ledger import Record, read_ledger
from tap.provenance.record import Stamp, equivalence_path, processor, read_record, record_job
from tap.recertify.compare import Comparison, compare
from tap.recertify.history import (
    FOLDER,
    answered,
    commit_of,
    commits,
    fingerprints_of,
    read_answers,
    run_driver,
    work_tree,
)
from tap.recertify.scratch import bring_inputs, make_scratch
from tap.runs import Run

REPORT_SECONDS: Final = 30
"""How often a line says how many jobs are replayed."""


@dataclass(frozen=True)
class Outcome:
    """What became of one job.

    Attributes:
        name: its record.
        equal: whether it counts as made by today's code now.
        reason: what was compared, or why not, in words.
    """

    name: str
    equal: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {'equal' if self.equal else 'different'}: {self.reason}"


def recertify(
    cfg: ScaleConfig,
    wanted: Iterable[str] = (),
    root: Path | str = ".",
    report: Callable[[str], None] = lambda line: None,
) -> list[Outcome]:
    """Replays the jobs of a scale whose code has changed since, or some of them.

    Args:
        cfg: the settings in use.
        wanted: beginnings of names of records (or of folders), to look at no others.
        root: the project.
        report: takes a line when something is done.

    Returns:
        One outcome per job whose code is another one today.

    Raises:
        UserError: the code is in no git repository, or a replay ended without an answer.
    """
    root = Path(root).resolve()
    ledger, today = read_ledger(cfg, root), Today(cfg)
    names = [name for name in ledger.in_order() if ledger.records[name].job in REPLAYED]
    if (starts := tuple(wanted)) and not (names := [name for name in names if name.startswith(starts)]):
        raise UserError(f"{starts[0]}: no training, evaluation or probe of scale {cfg.scale} has such a record")
    stale = [ledger.records[name] for name in names if _has_other_code(today, ledger.records[name])]
    outcomes: list[Outcome] = []
    waiting: list[Record] = []
    for record in stale:
        if (shown := holds(root / record.name, record.content, today.code_of(record.content))) is not None:
            outcomes.append(Outcome(record.name, True, str(shown)))
        elif (why := _cannot(record, today, root)) is not None:
            outcomes.append(Outcome(record.name, False, why))
        else:
            waiting.append(record)
    if waiting:
        with work_tree(root) as tree:
            for commit, records in _by_commit(waiting, tree, report):
                outcomes += _replay(cfg, today, records, commit, tree, root, report)
    return sorted(outcomes, key=lambda outcome: names.index(outcome.name))


def _has_other_code(today: Today, record: Record) -> bool:
    return (today.staleness(record.content) or "").startswith(OTHER_CODE)


def _cannot(record: Record, today: Today, root: Path) -> str | None:
    """Why a replay of a job would show nothing; None if it can."""
    if record.seal is False:
        return "its record is edited"
    reason = today.staleness(record.content)
    if reason is not None and reason != OTHER_CODE:
        return reason
    missing = [name for name in record.inputs if not name.startswith("outside/") and not (root / name).is_file()]
    return f"{missing[0]} is not there" if missing else None


def _by_commit(
    records: Sequence[Record], tree: Path, report: Callable[[str], None]
) -> Iterable[tuple[str | None, list[Record]]]:
    """Records with the commit that made them, those of one commit together; the work tree is at that commit."""
    waiting = list(records)
    while waiting:
        first, *others = waiting
        started = datetime.fromisoformat(str(first.content["started"]))
        known = [commit for record in records if (commit := record.content.get("commit"))]
        commit = commit_of(
            tree, request_of(first), str(first.content["fingerprint"]), commits(tree, started, known[:1])
        )
        same = [first]
        if commit is not None:
            report(f"{first.name}: made by commit {commit[:10]}")
            hashes = fingerprints_of(tree, [request_of(record) for record in others])
            same += [r for r, found in zip(others, hashes, strict=True) if found == r.content["fingerprint"]]
        yield commit, same
        waiting = [record for record in waiting if record not in same]


def request_of(record: Record) -> dict[str, str]:
    """A job as the driver takes it for its fingerprint."""
    content = record.content
    parameters = content.get("parameters", {})
    run = str(content.get("run", ""))
    scale, _, name = run.partition("/")
    parsed = Run.parse(scale, name) if run else None
    return {
        "job": record.job,
        "run": run,
        "scale": scale or Path(record.name).parts[1],
        "task": parsed.task if parsed else str(parameters["task"]),
        "method": parsed.method if parsed else "",
        "kind": str(parameters.get("kind", "")),
    }


def _replay(
    cfg: ScaleConfig,
    today: Today,
    records: Sequence[Record],
    commit: str | None,
    tree: Path,
    root: Path,
    report: Callable[[str], None],
) -> list[Outcome]:
    """Replays some jobs of one commit with both trees, side by side, and writes down those that are equal."""
    if commit is None:
        why = "no commit of this repository has the code that made it, with the libraries installed here"
        return [Outcome(record.name, False, why) for record in records]
    started = datetime.now(UTC)
    before = {record.name: today.code_of(record.content) for record in records}
    trees = {"before": tree, "now": SOURCES}
    with ThreadPoolExecutor(len(trees)) as pool:
        running = {
            whose: pool.submit(_answers, cfg, records, place, root / FOLDER / whose, root, old=whose == "before")
            for whose, place in trees.items()
        }
        while wait(running.values(), timeout=REPORT_SECONDS).not_done:
            done = min(answered(root / FOLDER / whose) for whose in trees)
            report(f"{done} of {len(records)} replayed")
        answers = {whose: read_answers(future.result()) for whose, future in running.items()}
    outcomes: list[Outcome] = []
    different: set[tuple[str, str]] = set()
    for record, old, new in zip(records, answers["before"], answers["now"], strict=True):
        found = compare(old, new)
        if found.equal and _without_seed(record) in different:
            found = Comparison("an earlier seed differs, and this one was replayed briefly")
        if found.equal and before[record.name] != Today(cfg).code_of(record.content):
            found = Comparison("today's code was edited during the replay")
        if found.equal:
            _write(record, before[record.name], commit, _in_words(record, found), old, started, root)
        outcome = Outcome(record.name, found.equal, _in_words(record, found) if found.equal else found.difference)
        if not found.equal:
            different.add(_without_seed(record))
        report(str(outcome))
        outcomes.append(outcome)
    for whose in trees:
        shutil.rmtree(root / FOLDER / whose, ignore_errors=True)
    return outcomes


def _answers(cfg: ScaleConfig, records: Sequence[Record], tree: Path, folder: Path, root: Path, old: bool) -> Path:
    make_scratch(folder, tree, root)
    requests = []
    brief = of_further_seeds(records)
    for record in records:
        bring_inputs(record.content, folder, root)
        requests.append({**request_of(record), **_details(cfg, record, root, old), "brief": record.name in brief})
    return run_driver(tree, {"do": "replay", "jobs": requests}, folder)


def of_further_seeds(records: Sequence[Record]) -> set[str]:
    """Names of the records whose run differs from that of an earlier one of the same job by its seed alone."""
    first: dict[tuple[str, str], str] = {}
    return {record.name for record in records if first.setdefault(_without_seed(record), record.name) != record.name}


def _without_seed(record: Record) -> tuple[str, str]:
    return record.job, str(record.content.get("run") or record.name).rpartition("/")[0]


def _details(cfg: ScaleConfig, record: Record, root: Path, old: bool) -> dict[str, Any]:
    """Settings in the form of the tree that replays them, and where the weights are."""
    folder = Path(record.name).parent
    if record.job == "probe":
        return {"folder": folder.as_posix()}
    scale, _, name = str(record.content["run"]).partition("/")
    drawn = {"sampler_seed": record.content.get("sampler_seed")}  # where a step trains one task of several
    if record.job == "train_joint":
        return drawn | _joint_details(cfg, JointRun.with_run(Run.parse(scale, name)), root, old)
    spec = record.content["spec"] if old else job_spec(cfg, Run.parse(scale, name)).model_dump(mode="json")
    weights = root / folder / "model.safetensors"
    return {
        **drawn,
        "folder": folder.as_posix(),
        "spec": spec,
        **({"weights": str(weights)} if record.job == "train" and weights.is_file() else {}),
    }


def _joint_details(cfg: ScaleConfig, joint: JointRun, root: Path, old: bool) -> dict[str, Any]:
    """The same of a joint training, whose settings stand in the records of all its tasks; equal for each of them."""
    folders = {task: joint.of(task).folder for task in joint_tasks(cfg, joint.method)}
    records = {task: read_record(root / folder / "run.json") or {} for task, folder in folders.items()}
    return {
        "run": joint.id,
        "task": "",
        "folders": {task: folder.as_posix() for task, folder in folders.items()},
        "specs": {
            task: records[task]["spec"] if old else job_spec(cfg, joint.of(task)).model_dump(mode="json")
            for task in folders
        },
    }


def _in_words(record: Record, found: Comparison) -> str:
    if record.job in ("train", "train_joint"):
        return f"{found.steps} steps of the training ({found.compared} tensors and numbers)"
    return f"the first images of the {record.job if record.job == 'probe' else 'evaluation'}"


def _write(
    record: Record, code: str, commit: str, shown: str, answer: dict[str, Any], started: datetime, root: Path
) -> None:
    trace = answer["trace"]
    known = {
        "before": record.content["fingerprint"],
        "now": code.partition(" ")[0],
        "commit": commit,
        "commit_now": commit_now(),
        "shown": shown,
        "hashes": _hashes(trace),
    }
    libraries = tuple(name for name in record.content.get("versions", {}) if name != "python")
    record_job(
        equivalence_path(root / record.name),
        Stamp(EQUIVALENCE, "", known, libraries),
        inputs=[root / record.name],
        outputs=[],
        started=started,
        device=processor(),
        root=root,
    )


def _hashes(trace: Sequence[Sequence[str]]) -> dict[str, str]:
    """One hash of all that was compared at each place: a training step, the end, the images."""
    digests: dict[str, Any] = {}
    for place, name, value in trace:
        digests.setdefault(place, hashlib.sha256()).update(f"{name} {value}\n".encode())
    return {place: digest.hexdigest() for place, digest in digests.items()}
