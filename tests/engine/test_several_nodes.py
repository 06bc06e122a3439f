"""Two launchers, as on two nodes, train as one process does; where one of them is killed, the other ends as well."""

import csv
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_task import ToyTask, toy_spec

from tap.engine.job import train_run
from tap.plan.runs import run_of

SCRIPT = Path(__file__).with_name("job_process.py")
OTHERS_END_WITHIN_S = 60


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start_nodes(folder, *arguments):
    """The documented line, once for each node; `localhost` is the first one's name."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--local-addr=127.0.0.1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [*command, str(SCRIPT), *arguments], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]


def rows(folder, spec):
    with (folder / run_of(spec).folder / "log.csv").open() as file:
        return list(csv.DictReader(file))


def left_of(folder):
    """Processes that work in a folder."""
    return [place for place in Path("/proc").glob("[0-9]*") if working_folder(place) == folder]


def working_folder(place):
    try:
        return Path(os.readlink(place / "cwd"))
    except OSError:
        return None


@pytest.mark.slow
def test_two_nodes_have_the_losses_of_one_process_in_every_step(tmp_path, monkeypatch):
    spec = toy_spec(log_steps=1)
    nodes, alone = tmp_path / "nodes", tmp_path / "alone"
    nodes.mkdir()
    alone.mkdir()
    launchers = start_nodes(nodes, "0", "plain")
    said = [launcher.communicate(timeout=240)[1] for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], said
    monkeypatch.chdir(alone)
    train_run(spec, ToyTask(noisy=False))
    found, expected = rows(nodes, spec), rows(alone, spec)
    assert len(found) == len(expected) == 12
    for own, one in zip(found, expected, strict=True):
        for name in ("loss", "grad_norm"):
            assert float(own[name]) == pytest.approx(float(one[name]), rel=1e-5, abs=1e-5), (one["step"], name)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("lost", [0, 1])
def test_where_a_node_is_lost_the_other_one_ends_and_the_same_line_goes_on(tmp_path, lost):
    spec = toy_spec()
    launchers = start_nodes(tmp_path, "0.5")
    deadline = time.monotonic() + 120
    while not list((tmp_path / run_of(spec).scratch).glob("*.state")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    launchers[lost].send_signal(signal.SIGKILL)  # its process ends with it: nobody is left on that node
    launchers[1 - lost].communicate(timeout=OTHERS_END_WITHIN_S)
    launchers[lost].communicate()
    assert launchers[1 - lost].returncode != 0
    deadline = time.monotonic() + 10
    while left_of(tmp_path):
        assert time.monotonic() < deadline, left_of(tmp_path)
        time.sleep(0.05)
    again = start_nodes(tmp_path, "0")
    said = [launcher.communicate(timeout=240)[1] for launcher in again]
    assert [launcher.returncode for launcher in again] == [0, 0], said
    assert any("goes on at step" in text for text in said), said
