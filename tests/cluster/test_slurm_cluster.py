"""The Slurm profile on a real cluster of one machine, with a job, a node and the controller killed in the middle.

`tests/cluster/install_slurm.sh` (as root) installs Debian's packages; without them this is skipped. CI runs the first
test, whose job takes a second; the others train, for minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from loopback import Cluster, wait_for, why_not
from typer.testing import CliRunner

from tap import cli

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data" / "fashion_mnist"
PROFILE = "workflow/profiles/slurm"
STEPS = {"dense": 200, "method": 300}
CONTROLLER_SAVES_S = 6
PARAMS = f"""\
scale: smoke
tasks: [cls]
overrides:
  smoke:
    device: cpu
    keep_rates: [0.5]
    tasks.cls.methods: [dense, tap]
    tasks.cls.pretrain.share: null
    tasks.cls.pretrain.decoder_width: 48
    tasks.cls.pretrain.decoder_depth: 1
    tasks.cls.pretrain.decoder_heads: 3
    tasks.cls.pretrain.train: {{length: 2, unit: steps, batch_size: 16, optimizer: {{lr: 1.0e-3}}}}
    tasks.cls.dense.length: {STEPS["dense"]}
    tasks.cls.dense.log_steps: 5
    tasks.cls.dense.checkpoint_seconds: 0.5
    tasks.cls.method.length: {STEPS["method"]}
    tasks.cls.method.log_steps: 5
    tasks.cls.method.checkpoint_seconds: 0.5
"""
TARGET = "results/smoke/tables/tab_cls.tex"
START, DENSE, TAP = "dense/r1.00/start/s0", "dense/r1.00/main/s0", "tap/r0.50/main/s0"
RUNS = Path("results/smoke/runs/cls")
TRAINED = ("model.safetensors", "log.csv")
SAME = [f"{run}/{file}" for run in (START, DENSE, TAP) for file in TRAINED]
SAME += [f"{run}/per_sample.npz" for run in (DENSE, TAP)]
PRETRAINED = "mae/r1.00/main/s0"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_not() is not None, reason=f"no Slurm here: {why_not()}"),
]
needs_data = pytest.mark.skipif(
    not (DATA / "manifest.json").is_file(), reason="the data are not there; `tap data prepare cls`"
)


def project(folder: Path, data: bool = True) -> Path:
    """A copy of this project with a few jobs to do."""
    for name in ("tap", "workflow"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    if data:
        shutil.copytree(DATA, folder / "data" / "fashion_mnist", copy_function=shutil.copy)
    (folder / "params.yaml").write_text(PARAMS)
    path = folder / PROFILE / "config.yaml"
    text = path.read_text().replace("slurm_account: change-me", "slurm_account: none")
    text = text.replace("slurm_partition: change-me", "slurm_partition: main")
    path.write_text(re.sub(r"^(  \w+): 16$", r"\1: 1", text, flags=re.MULTILINE))  # nodes of two cores
    return folder


def environment(folder: Path, base: dict[str, str]) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{base['PATH']}"
    return base | {"PATH": path, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}


class Watched:
    """A workflow on the cluster, and how far its trainings are."""

    def __init__(self, folder: Path, cluster: Cluster, target: str, *options: str) -> None:
        self.folder, self.cluster, self._log = folder, cluster, folder / "snakemake.out"
        command = ["snakemake", target, "--workflow-profile", PROFILE, "--slurm-no-account"]
        command += ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "1"]
        command += ["--seconds-between-status-checks", "1", "--slurm-keep-successful-logs", *options]
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment(folder, cluster.environment), stdout=output, stderr=output
            )

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for_steps(self, run: str, more_than: int = 0) -> int:
        """Waits until a training has kept a state later than a step; says which."""
        folder = self.folder / ".tap/resume/smoke/cls" / run

        def latest() -> int:
            return max((int(path.name.split("-step-")[1][:9]) for path in folder.glob("*.state")), default=0)

        def reached() -> bool:
            assert self.process.poll() is None, self.said()[-5000:]
            return latest() > more_than

        wait_for(reached, 300, f"{run} is beyond step {more_than}")
        return latest()

    def job_of(self, rule: str, but: str = "") -> tuple[str, str]:
        """Number and node of the one job of a rule that runs, or will; another than one that was killed."""

        def running() -> list[tuple[str, str]]:
            jobs = self.cluster.jobs().items()
            return [(n, node) for n, (state, node, about) in jobs if state == "RUNNING" and rule in about and n != but]

        wait_for(lambda: len(running()) == 1, 120, f"one job of {rule} runs")
        return running()[0]

    def kill_job(self, rule: str, run: str) -> None:
        """Kills a job in the middle of its training, and waits until another one trains on."""
        at = self.wait_for_steps(run) + 5
        number, _ = self.job_of(rule)
        self.cluster.call("scancel", "--signal=KILL", "--full", number)
        self.job_of(rule, but=number)
        self.wait_for_steps(run, at)

    def kill_controller(self) -> None:
        """Kills the controller in the middle of a job, and starts it again."""
        time.sleep(CONTROLLER_SAVES_S)  # else it would not know of the job, and start it twice
        self.cluster.kill("slurmctld")
        time.sleep(2)
        self.cluster.start_controller()

    def lose_node_of(self, rule: str) -> None:
        """Takes away the node of a job with all that it ran, and brings it back."""
        _, node = self.job_of(rule)
        self.cluster.lose_node(node)
        self.cluster.start_node(node)

    def through(self) -> None:
        """Waits for the end of the workflow, which must be a good one."""
        self.process.wait(timeout=600)
        assert self.process.returncode == 0, self.said()[-5000:]

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def call(*words: str) -> None:
    """A command of `tap` in this process."""
    assert CliRunner().invoke(cli.app, list(words), catch_exceptions=False).exit_code == 0


def different(names: Iterable[str], alone: Path, shared: Path) -> list[str]:
    return [name for name in names if (alone / RUNS / name).read_bytes() != (shared / RUNS / name).read_bytes()]


def test_a_job_that_is_cancelled_is_submitted_again(tmp_path):
    folder, target = project(tmp_path / "shared", data=False), "results/smoke/tables/tab_training_config.tex"
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.call("scontrol", "update", "NodeName=n1,n2", "State=DRAIN", "Reason=held")
        with Watched(folder, cluster, target) as work:
            wait_for(cluster.jobs, 120, "the table's job waits")
            ((number, (state, _, _)),) = cluster.jobs().items()
            assert state == "PENDING"
            cluster.call("scancel", number)
            cluster.call("scontrol", "update", "NodeName=n1,n2", "State=RESUME")
            work.through()
            assert work.said().count("has been submitted with SLURM jobid") == 2
    assert (folder / target).is_file()


@needs_data
@pytest.mark.long
def test_a_training_whose_job_controller_and_node_are_killed_ends_with_the_same_bits(tmp_path, monkeypatch):
    alone, shared = project(tmp_path / "alone"), tmp_path / "shared"
    monkeypatch.chdir(alone)
    call("data", "prepare", "cls")
    call("train", f"cls/{PRETRAINED}")
    shutil.copytree(alone, shared)
    call("train", f"cls/{START}")
    with (
        Cluster(tmp_path / "cluster") as cluster,
        Watched(shared, cluster, str(RUNS / START / TRAINED[0])) as work,
    ):
        work.kill_job("train_dense", START)
        work.kill_controller()
        work.lose_node_of("train_dense")
        work.through()
    assert different([f"{run}/{file}" for run in (PRETRAINED, START) for file in TRAINED], alone, shared) == []
    assert "goes on at step" in (shared / f".tap/logs/smoke/train/cls/{START}.log").read_text()


@needs_data
@pytest.mark.long
def test_the_smoke_scale_on_a_cluster_whose_parts_are_killed(tmp_path):
    alone, shared = project(tmp_path / "alone"), project(tmp_path / "shared")
    subprocess.run(
        ["snakemake", TARGET], cwd=alone, env=environment(alone, dict(os.environ)), check=True, capture_output=True
    )
    with Cluster(tmp_path / "cluster") as cluster:
        with Watched(shared, cluster, TARGET, "--default-resources", "slurm_partition=gpus") as wrong:
            assert wrong.process.wait(timeout=60) == 1
            assert "this cluster has no partition 'gpus'; it has main" in wrong.said()
        with Watched(shared, cluster, TARGET) as work:
            work.kill_job("train_dense", START)
            work.kill_controller()
            work.wait_for_steps(TAP)
            time.sleep(CONTROLLER_SAVES_S)
            work.lose_node_of("train_method")
            at = work.wait_for_steps(TAP)
            work.wait_for_steps(TAP, at)
            number, _ = work.job_of("train_method")
            cluster.call("scancel", "--signal=TERM", number)  # as the profile's `--signal=TERM@60` before a time limit
            work.through()
    assert different(SAME, alone, shared) == []
    logs = {run: (shared / ".tap/logs/smoke/train/cls" / f"{run}.log").read_text() for run in (START, TAP)}
    assert all("goes on at step" in text for text in logs.values()), logs
    (stopped,) = (shared / ".snakemake/slurm_logs").rglob(f"{number}.log")
    assert "asked to end (SIGTERM) at step" in stopped.read_text()
    assert (shared / TARGET).is_file()
