"""Finding the commit that made a result, in a small repository whose code says its own fingerprint."""

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tap.errors import UserError
from tap.recertify.history import (
    answered,
    commit_of,
    commits,
    fingerprints_of,
    git,
    read_answers,
    run_driver,
    work_tree,
)

CODE = "def code_of_training(task, method):\n    return f'{VERSION}-{task}-{method} torch==1'\n"
WANTED = {
    "job": "train",
    "run": "smoke/cls/tap/r0.50/main/s0",
    "scale": "smoke",
    "task": "cls",
    "method": "tap",
    "kind": "",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Three commits, an hour apart, of which the second one changes no code of the package."""
    folder = tmp_path_factory.mktemp("repository")
    place = folder / "tap/provenance"
    place.mkdir(parents=True)
    (folder / "tap/__init__.py").write_text("")
    (place / "__init__.py").write_text("")
    git("init", "--quiet", repository=folder)
    for hour, (name, text) in enumerate(
        [
            ("tap/provenance/behind.py", "VERSION = 1\n" + CODE),
            ("README", "x"),
            ("tap/provenance/behind.py", "VERSION = 3\n" + CODE),
        ]
    ):
        (folder / name).write_text(text)
        date = f"2026-01-01T0{hour}:00:00Z"
        git("add", "--all", repository=folder)
        command = [
            "git",
            "-C",
            str(folder),
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.org",
            "commit",
            "-qm",
            "x",
        ]
        subprocess.run(command, check=True, env={**os.environ, "GIT_COMMITTER_DATE": date, "GIT_AUTHOR_DATE": date})
    return folder


def test_commits_before_the_job_come_first_and_those_without_code_are_left_out(repository):
    last, _, first = git("log", "--format=%H", repository=repository).split()
    assert commits(repository, datetime(2026, 1, 1, 1, 30, tzinfo=UTC)) == [first, last]
    assert commits(repository, datetime(2026, 1, 1, 9, tzinfo=UTC)) == [last, first]
    assert commits(repository, datetime(2026, 1, 1, 9, tzinfo=UTC), [first]) == [first, last]


def test_a_commit_is_found_by_the_fingerprint_that_its_own_code_says(repository, tmp_path):
    last, _, first = git("log", "--format=%H", repository=repository).split()
    with work_tree(tmp_path, repository) as tree:
        assert commit_of(tree, WANTED, "1-cls-tap", [last, first]) == first
        assert commit_of(tree, WANTED, "3-cls-tap", [last, first]) == last
        assert commit_of(tree, WANTED, "2-cls-tap", [last, first]) is None
    assert not tree.exists()
    assert len(git("worktree", "list", repository=repository).split("\n")) == 2, "the repository itself"


@pytest.mark.slow
def test_a_tree_without_the_interfaces_is_said_to_lack_them(repository, tmp_path):
    asked = {"do": "replay", "jobs": [{"job": "train", "spec": {"data": {}, "train": {}}}]}
    (answer,) = read_answers(run_driver(repository, asked, tmp_path))
    assert answer["missing"].startswith("tap.engine.job")
    assert fingerprints_of(repository, [WANTED | {"job": "probe"}, WANTED]) == [None, "3-cls-tap"]


@pytest.mark.slow
def test_a_job_that_is_asked_for_twice_is_replayed_once(repository, tmp_path):
    asked = {"job": "train", "spec": {"data": {}, "train": {}}}
    file = run_driver(repository, {"do": "replay", "jobs": [asked, {**asked, "run": "x"}, asked]}, tmp_path)
    first, _, third = file.read_text().splitlines()
    assert first == third
    assert answered(tmp_path) == 3


def test_what_git_and_the_driver_say_is_passed_on(tmp_path, repository):
    with pytest.raises(UserError, match=r"git log: .*not a git repository"):
        git("log", repository=tmp_path)
    with pytest.raises(UserError, match="replay with the code in"):
        run_driver(repository, {"jobs": [{}]}, tmp_path)
    assert json.loads(Path(tmp_path / ".questions.json").read_text()) == {"jobs": [{}]}
    assert answered(tmp_path) == 0
