"""Cards are lent one job at a time, over all workflows of a user, and come back however a job ends; faked devices."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

JOB = """
import os, sys, time
from tap.engine.gpu_pool import keep_through_exec, take_gpus
from tap.errors import UserError
try:
    take_gpus(int(sys.argv[1]), lambda text: print(text, flush=True))
except UserError as error:
    sys.exit(str(error))
print("has", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
if len(sys.argv) > 2:
    keep_through_exec()
    os.execvp("sleep", ["sleep", "60"])
time.sleep(60)
"""


@pytest.fixture
def start(tmp_path):
    """Starts a job that takes cards of a machine with some; a lock folder of the test's own."""
    jobs = []

    def job(count=1, cards=2, visible=None, launcher=False):
        tools = tmp_path / f"tools{cards}"
        tools.mkdir(exist_ok=True)
        lines = "\n".join(f"echo '{number}, GPU-{'abcd'[number]}'" for number in range(cards))
        (tools / "nvidia-smi").write_text(f"#!/bin/sh\n{lines}\n")
        (tools / "nvidia-smi").chmod(0o755)
        environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        process = subprocess.Popen(
            [sys.executable, "-c", JOB, str(count), *(["launcher"] if launcher else [])],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd(),
        )  # fmt: skip
        jobs.append(process)
        return process

    yield job
    for process in jobs:
        process.kill()
        process.communicate()


def line(process):
    return process.stdout.readline().strip()


def test_two_jobs_get_different_cards_and_a_third_waits_for_a_killed_one(start):
    first, second = start(), start()
    freed, other = line(first), line(second)
    assert {freed, other} == {"has GPU-a", "has GPU-b"}
    third = start()
    assert line(third) == "GPUs: 1 needed, and other jobs have all but 0 of 2; waiting for them"
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert line(third) == freed


def test_numbers_and_ids_name_the_same_card(start):
    """A workflow that may use the second card alone, and one that calls it by its id."""
    first = start(visible="1")
    assert line(first) == "has GPU-b"
    second = start(visible="GPU-b")
    assert line(second).endswith("other jobs have all but 0 of 1; waiting for them")
    assert line(start()) == "has GPU-a"


def test_several_cards_are_taken_at_once_or_not_at_all(start):
    one = start(cards=3)
    assert line(one) == "has GPU-a"
    three = start(3, cards=3)
    assert line(three) == "GPUs: 3 needed, and other jobs have all but 2 of 3; waiting for them"
    assert line(start(2, cards=3)) in (
        "has GPU-b,GPU-c",
        "GPUs: 2 needed, and other jobs have all but 0 of 3; waiting for them",  # the other one was just looking
    )
    one.kill()


def test_a_launcher_keeps_the_cards_of_its_processes(start):
    launcher = start(2, launcher=True)
    assert line(launcher) == "has GPU-a,GPU-b"
    waiting = start()
    assert "waiting" in line(waiting)
    launcher.kill()
    launcher.wait()
    assert line(waiting) == "has GPU-a"


@pytest.mark.parametrize(("visible", "cards"), [("", 2), ("-1", 2), ("7,0", 2), (None, 0)])
def test_without_a_card_nothing_is_taken(start, visible, cards):
    assert line(start(cards=cards, visible=visible)) == f"has {visible}".strip()


def test_more_than_there_are_is_refused(start):
    process = start(3)
    assert process.wait(60) == 1
    assert "processes: 3 GPUs are needed and 2 may be used" in process.stderr.read()
