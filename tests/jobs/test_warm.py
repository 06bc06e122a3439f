"""Jobs that are forks of one process: what they would be by themselves, ending with whoever waits for them."""

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tap.jobs import warm
from tap.provenance.orphans import VARIABLE as WORKFLOW

pytestmark = pytest.mark.slow

SERVER = """
import os, sys, time
from tap.jobs import warm
def command():
    kind = sys.argv[1]
    if kind == "say":
        print(os.getcwd(), os.environ["MARK"], sys.argv[2:], flush=True)
        print("words", file=sys.stderr)
    elif kind == "end":
        sys.exit(int(sys.argv[2]))
    elif kind == "fail":
        raise ValueError("a defect")
    elif kind == "threads":
        import torch
        print(torch.get_num_threads())
    else:
        print(os.getpid(), flush=True)
        time.sleep(60)
warm.serve(sys.argv[1], command, lambda: None)
"""
CLIENT = "import sys; from tap.jobs.warm import run_warm; sys.exit(run_warm(['tap', *sys.argv[1:]]) or 0)"


def gone(process):
    """Waits until no process has the number any more."""
    for _ in range(200):
        if not Path(f"/proc/{process}").exists() or "Z" in Path(f"/proc/{process}/stat").read_text().split()[2]:
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def workflow():
    process = subprocess.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def ask(workflow, tmp_path):
    """A server, and a function that starts a job by it."""
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    place = folder / f"{workflow.pid}.socket"
    environment = os.environ | {warm.VARIABLE: str(place), WORKFLOW: str(workflow.pid), "MARK": "m"}
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(place)], env=environment)
    for _ in range(400):
        if place.exists():
            break
        time.sleep(0.05)
    assert place.exists()

    def start(*arguments, **changes):
        return subprocess.Popen(
            [sys.executable, "-c", CLIENT, *arguments],
            env=environment | changes,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )

    start.server, start.place = server, place
    yield start
    server.kill()
    server.wait()


def test_a_job_has_the_output_folder_environment_and_status_of_its_own(ask, tmp_path):
    said = ask("say", "a b").communicate()
    assert said == (f"{tmp_path} m ['a b']\n", "words\n")
    ended = ask("end", "3")
    ended.communicate()
    assert ended.returncode == 3
    failed = ask("fail")
    assert "ValueError: a defect" in failed.communicate()[1]
    assert failed.returncode == 1
    assert ask("threads", OMP_NUM_THREADS="1").communicate()[0] == "1\n"
    assert ask("threads", OMP_NUM_THREADS="2").communicate()[0] == "2\n"


def test_no_other_task_s_libraries_are_waited_for(monkeypatch):
    pipelines, import_any = [], importlib.import_module

    def import_or_note(name, package=None):
        return pipelines.append(name) if name.startswith("tap.tasks.") else import_any(name, package)

    monkeypatch.setattr(importlib, "import_module", import_or_note)
    monkeypatch.setenv(warm.TASKS_VARIABLE, "cls,seg")
    warm.preload()
    assert pipelines == ["tap.tasks.classification.task", "tap.tasks.segmentation.task"]


def test_a_job_ends_with_the_one_that_waits_for_it(ask):
    client = ask("sleep")
    job = int(client.stdout.readline())
    client.send_signal(signal.SIGKILL)
    assert gone(job)
    client.wait()


def test_a_job_that_is_killed_is_told_by_its_status(ask):
    client = ask("sleep")
    os.kill(int(client.stdout.readline()), signal.SIGKILL)
    client.communicate()
    assert client.returncode == 128 + signal.SIGKILL


def test_the_process_ends_with_the_workflow(ask, workflow):
    workflow.kill()
    workflow.wait()
    assert ask.server.wait(timeout=20) == -signal.SIGKILL


def test_code_that_has_changed_since_is_not_run(ask, monkeypatch):
    """The command is then run as without such a process, by code that is read anew."""
    monkeypatch.setenv(warm.VARIABLE, str(ask.place))
    monkeypatch.setattr(warm, "_code", lambda: [["other.py", 1, 1]])
    assert warm.run_warm(["tap", "end", "3"]) is None


def test_nobody_else_may_reach_it(ask, monkeypatch):
    monkeypatch.setenv(warm.VARIABLE, str(ask.place))
    ask.place.parent.chmod(0o755)
    assert warm.run_warm(["tap", "end", "3"]) is None


def test_a_command_by_hand_knows_no_such_process(monkeypatch):
    monkeypatch.delenv(warm.VARIABLE, raising=False)
    assert warm.run_warm(["tap", "end", "3"]) is None
