"""Which commit made a result: the one whose code has the fingerprint of its record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tap.errors import UserError
from tap.provenance.fingerprint import PACKAGE, SOURCES

DRIVER: Final = Path(__file__).with_name("driver.py")
FOLDER: Final = Path(".tap") / "recertify"
"""Where work trees and scratch projects lie while they are needed."""
ANSWERS: Final = ".answers.jsonl"


def git(*arguments: str, repository: Path = SOURCES) -> str:
    """What a git command prints.

    Raises:
        UserError: git is not there, the code is in no repository, or the command fails, with what it says.
    """
    try:
        done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True)
    except OSError as error:
        raise UserError(f"git: cannot be run ({error.strerror}); a replay needs the history of the code") from error
    if done.returncode != 0:
        raise UserError(
            f"git {arguments[0]}: {done.stderr.strip() or 'failed'}; a replay needs the history of the code"
        )
    return done.stdout


@contextmanager
def work_tree(root: Path, repository: Path = SOURCES) -> Iterator[Path]:
    """A work tree of the code's repository to check commits out in, removed afterwards."""
    place = (root / FOLDER / "tree").resolve()
    _remove(place, repository)
    place.parent.mkdir(parents=True, exist_ok=True)
    git("worktree", "add", "--detach", "--quiet", str(place), "HEAD", repository=repository)
    try:
        yield place
    finally:
        _remove(place, repository)


def _remove(place: Path, repository: Path) -> None:
    if place.exists():
        git("worktree", "remove", "--force", str(place), repository=repository)
    git("worktree", "prune", repository=repository)


def commits(tree: Path, when: datetime, known: Sequence[str] = ()) -> list[str]:
    """Commits in which the package differs from the one before, the likeliest first.

    Args:
        tree: a work tree.
        when: start of the job; code that was committed shortly before it is the likeliest.
        known: commits to begin with.
    """
    lines = git("log", "--format=%H %ct", "HEAD", "--", PACKAGE, repository=tree).split("\n")
    dated = [(name, int(time)) for name, _, time in (line.partition(" ") for line in lines if line)]
    moment = when.timestamp()
    dated.sort(key=lambda pair: (pair[1] > moment, abs(pair[1] - moment)))
    return list(dict.fromkeys([*known, *(name for name, _ in dated)]))


def commit_of(tree: Path, wanted: Mapping[str, Any], fingerprint: str, candidates: Sequence[str]) -> str | None:
    """The first commit whose code behind a job has a fingerprint; the work tree is left there.

    Args:
        tree: a work tree, whose state changes.
        wanted: the job, as the driver takes it.
        fingerprint: hash that the job's record has.
        candidates: commits, in the order in which they are tried.
    """
    for commit in candidates:
        git("checkout", "--detach", "--quiet", "--force", commit, repository=tree)
        if fingerprints_of(tree, [wanted]) == [fingerprint]:
            return commit
    return None


def fingerprints_of(tree: Path, jobs: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """Fingerprints of the code behind jobs in a tree; None for a job that the tree does not have, or cannot say."""
    return [*read_answers(run_driver(tree, {"do": "fingerprints", "jobs": list(jobs)}, tree))]


def run_driver(tree: Path, requests: Mapping[str, Any], folder: Path) -> Path:
    """The file with what the driver answers with the code of a tree: a line of JSON per job (`read_answers`).

    Args:
        tree: folder that holds the package.
        requests: what to do.
        folder: the project to do it in.

    Raises:
        UserError: the driver ended before the last answer, with the last that it said.
    """
    questions, answers = folder / ".questions.json", folder / ANSWERS
    answers.unlink(missing_ok=True)
    questions.write_text(json.dumps(requests), encoding="utf-8")
    # -P: what lies beside the driver must not hide modules of the tree, nor does the current folder. No bytecode: that
    # of another commit, checked out in the same second, may have a module's time and size.
    command = [sys.executable, "-P", str(DRIVER), questions.name, answers.name]
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve()), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0 or answered(folder) != len(requests["jobs"]):
        raise UserError(f"replay with the code in {tree}: {done.stderr.strip()[-600:] or 'ended without an answer'}")
    return answers


def answered(folder: Path) -> int:
    """How many answers a driver has given in a project so far."""
    try:
        with open(folder / ANSWERS, "rb") as lines:  # undecoded: it may be hundreds of megabytes
            return sum(line.endswith(b"\n") for line in lines)
    except FileNotFoundError:
        return 0


def read_answers(path: Path) -> Iterator[Any]:
    """Answers of the driver one by one: all of them together may be larger than memory."""
    with open(path, encoding="utf-8") as lines:
        yield from map(json.loads, lines)
