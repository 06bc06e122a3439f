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


def lent(process):
    """What a job has in the end; one that looks while another is looking waits for a second look."""
    told = line(process)
    return line(process) if told.endswith("waiting for them") else told


def test_two_jobs_get_different_cards_and_a_third_waits_for_a_killed_one(start):
    first, second = start(), start()
    freed, other = lent(first), lent(second)
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
    assert lent(start(2, cards=3)) == "has GPU-b,GPU-c"
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


SNAKEFILE = """
rule all:
    input: "a", "b"

rule job:
    output: "{name}"
    resources: gpu=1
    shell: "{python} {script} {seen} > {output}"
"""

LEND = """
import os, sys, time
from pathlib import Path
from tap.engine.gpu_pool import take_gpus
[card] = take_gpus(1)
mark = Path(sys.argv[1]) / f"{card}.{os.getpid()}"
others = [str(path) for path in mark.parent.glob(f"{card}.*") if path.suffix != ".done"]
mark.write_text(" ".join(others))
time.sleep(0.5)
mark.rename(mark.with_name(mark.name + ".done"))
"""


@pytest.mark.slow
def test_two_workflows_of_one_user_share_the_cards(tmp_path):
    """Each workflow counts two cards as its own; four jobs on the two of the machine are never on one at once."""
    tools, seen, script = tmp_path / "tools", tmp_path / "seen", tmp_path / "lend.py"
    for folder in (tools, seen, tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho '0, GPU-a'; echo '1, GPU-b'\n")
    (tools / "nvidia-smi").chmod(0o755)
    script.write_text(LEND)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[2])}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    workflows = []
    for name in ("one", "two"):
        text = SNAKEFILE.replace("{python}", sys.executable).replace("{script}", str(script))
        (tmp_path / name / "Snakefile").write_text(text.replace("{seen}", str(seen)))
        command = [sys.executable, "-m", "snakemake", "--cores", "2", "--resources", "gpu=2"]
        workflows.append(subprocess.Popen(command, cwd=tmp_path / name, env=environment, stderr=subprocess.PIPE))
    for workflow in workflows:
        _, told = workflow.communicate(timeout=120)
        assert workflow.returncode == 0, told.decode()[-2000:]
    marks = list(seen.iterdir())
    assert len(marks) == 4
    assert {mark.name.split(".")[0] for mark in marks} == {"GPU-a", "GPU-b"}
    assert [mark.read_text() for mark in marks] == [""] * 4
