"""Kills the workflow at random moments, again and again, and looks whether the same command just goes on.

    python tests/stress/kill.py                          # 20 kills, smoke scale, classification
    python tests/stress/kill.py --kills 3 --seed 1

Snakemake gets SIGKILL, alone: nothing tells its jobs. Every other kill comes at any moment, the others in the middle of
a training, soon after it has saved a state. After each kill all jobs must end by themselves, before the same command
starts again; a workflow that gets through is started anew. After the last kill it is left to finish. Then: each command
went on without an error about locks or half-made files, a training went on from a saved state, no process and no torn
file is left, `tap verify` finds nothing, no job is left to do, and weights and per-image values have the same bytes as
those of a run that nobody killed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARAMS = """\
scale: smoke
tasks: [cls]
overrides:
  smoke:
    keep_rates: [0.5]
    tasks.cls.methods: [dense, tap]
    tasks.cls.dense.length: {steps}
    tasks.cls.method.length: {steps}
    tasks.cls.dense.log_steps: 2
    tasks.cls.method.log_steps: 2
    tasks.cls.dense.checkpoint_seconds: 0.1
    tasks.cls.method.checkpoint_seconds: 0.1
"""
TARGET = "results/smoke/tables/tab_cls.tex"
COMPARED = ("model.safetensors", "per_sample.npz")
END_WITHIN_S = 30


class Folder:
    """A copy of the project in which the workflow is run and killed."""

    def __init__(self, place: Path, data: Path, steps: int) -> None:
        self.place = place
        for name in ("tap", "workflow"):
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(data, place / "data" / "fashion_mnist")
        (place / "params.yaml").write_text(PARAMS.format(steps=steps))
        self.environment = {**os.environ, "PYTHONPATH": str(place), "OMP_NUM_THREADS": "1"}

    def start(self, log: Path) -> subprocess.Popen[bytes]:
        with open(log, "ab") as file:
            command = [sys.executable, "-m", "snakemake", TARGET]
            return subprocess.Popen(command, cwd=self.place, env=self.environment, stdout=file, stderr=file)

    def jobs(self) -> list[int]:
        """Processes that work in this folder, Snakemake included, found by their working directory."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    inside = Path(os.readlink(entry / "cwd")) == self.place.resolve()
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:  # it has ended meanwhile
                    continue
                if inside and state != "Z":
                    found.append(int(entry.name))
        return found

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *arguments], cwd=self.place, env=self.environment, capture_output=True, text=True
        )

    def results(self) -> dict[str, bytes]:
        files = [path for path in (self.place / "results").rglob("*") if path.name in COMPARED]
        return {path.relative_to(self.place).as_posix(): path.read_bytes() for path in sorted(files)}

    def states(self) -> dict[Path, int]:
        """Saved states of trainings that have not ended, with their times."""
        found = {}
        for path in (self.place / ".tap" / "resume").rglob("*.state"):
            try:
                found[path] = path.stat().st_mtime_ns
            except FileNotFoundError:  # renamed or removed meanwhile
                continue
        return found

    def torn(self) -> list[Path]:
        return [path for path in self.place.rglob(".*.tmp*") if ".snakemake" not in path.parts]


def kill_and_go_on(folder: Folder, moment: float, log: Path, in_training: bool) -> str | None:
    """Starts the workflow, kills Snakemake after some seconds, and waits until its jobs have ended too.

    Args:
        folder: where.
        moment: seconds, from the start or from when a training has saved a state.
        log: file for what the workflow says.
        in_training: whether to wait for such a state first.

    Returns:
        What was going on, empty if the awaited training had just ended; None if the workflow finished before.
    """
    before, workflow = folder.states(), folder.start(log)
    while in_training and workflow.poll() is None and not folder.states().items() - before.items():
        time.sleep(0.02)
    try:
        workflow.wait(moment)
        assert workflow.returncode == 0, f"{log.read_text()[-3000:]}\nexit status {workflow.returncode}"
        return None
    except subprocess.TimeoutExpired:
        pass
    running = len(folder.jobs()) - 1
    workflow.send_signal(signal.SIGKILL)
    workflow.wait()
    killed = time.monotonic()
    while folder.jobs():
        assert time.monotonic() - killed < END_WITHIN_S, f"orphans {folder.jobs()} {END_WITHIN_S} s after the kill"
        time.sleep(0.05)
    if in_training and not folder.states():
        return ""
    when = "in a training" if in_training else "at any moment"
    return f"killed {when} with {running} processes at work; all ended within {time.monotonic() - killed:.2f} s"


def stress(place: Path, data: Path, kills: int, seed: int, steps: int) -> list[str]:
    """Kills the workflow `kills` times, lets it finish, and compares with a run that nobody killed.

    Returns:
        What happened, line by line.
    """
    quiet, killed = Folder(place / "quiet", data, steps), Folder(place / "killed", data, steps)
    assert quiet.call("tap.cli", "data", "prepare", "cls").returncode == 0
    shutil.copytree(quiet.place / "data", killed.place / "data", dirs_exist_ok=True)
    begun = time.monotonic()
    assert quiet.start(place / "quiet.log").wait() == 0, (place / "quiet.log").read_text()[-3000:]
    usual = time.monotonic() - begun
    rng, log, lines = random.Random(seed), place / "killed.log", [f"undisturbed: {usual:.0f} s"]
    longest, soon = usual / 3, 0.5
    while len(lines) <= kills:
        in_training = len(lines) % 2 == 0
        moment = rng.uniform(0.0, soon) if in_training else rng.uniform(1.0, longest)
        happened = kill_and_go_on(killed, moment, log, in_training)
        if happened is None:  # through before the kill: once more from the start, with earlier kills
            assert killed.results() == quiet.results(), "other bytes than without the kills"
            for name in ("results", ".tap", ".snakemake"):
                shutil.rmtree(killed.place / name)
            longest = max(5.0, longest / 2)
            continue
        if not happened:  # trainings are shorter on this machine
            soon /= 2
            continue
        lines.append(f"kill {len(lines)}: {happened}")
        print(lines[-1], flush=True)
    assert killed.start(log).wait() == 0, log.read_text()[-3000:]
    text = log.read_text()
    for wrong in ("LockException", "IncompleteFilesException", "another workflow is running", "is being written"):
        assert wrong not in text, wrong
    resumed = text.count("goes on at step")
    assert resumed > 0 or kills < 2, "no training went on from a saved state"
    assert killed.results() == quiet.results(), "other bytes than without the kills"
    assert not killed.jobs()
    assert not killed.torn(), killed.torn()
    verified = killed.call("tap.cli", "verify")
    assert verified.returncode == 0, verified.stderr
    left = killed.call("snakemake", TARGET, "--dry-run")
    assert "Nothing to be done" in left.stdout + left.stderr, left.stdout[-2000:]
    lines.append(f"finished; trainings went on from a state {resumed} times; {len(quiet.results())} files the same")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60, help="steps of each training; more means longer ones")
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "fashion_mnist")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tap-kill-") as place:
        print(stress(Path(place), arguments.data, arguments.kills, arguments.seed, arguments.steps)[-1])


if __name__ == "__main__":
    main()
