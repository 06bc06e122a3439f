"""Kills the workflow at random moments of every kind of job, and looks whether the same command just goes on.

    python tests/stress/kill.py                          # 20 kills, smoke scale, classification
    python tests/stress/kill.py --kills 3 --seed 1

Snakemake gets SIGKILL, alone: nothing tells its jobs. A third of the kills come at any moment, a third in the middle of
a training, soon after it has saved a state, and a third while a job of a kind is at work that was killed least often
so far (evaluation, probe, table, figure, publishing, ...). After each kill all jobs must end by themselves, before the
same command starts again; a workflow that gets through is started anew. After the last kill it is left to finish. Then:
each command went on without an error about locks or half-made files, a training went on from a saved state, no process
and no torn file is left, `tap verify` finds nothing, no job is left to do, and weights, per-image values and figures
have the same bytes as those of a run that nobody killed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARAMS = """\
scale: smoke
tasks: [cls]
overrides:
  smoke:
    keep_rates: [0.5]
    tasks.cls.methods: [dense, tap]
    tasks.cls.pretrain.share: null
    tasks.cls.pretrain.train: {{length: {steps}, unit: steps, batch_size: 16, optimizer: {{lr: 1.0e-3}}}}
    tasks.cls.pretrain.decoder_width: 48
    tasks.cls.pretrain.decoder_depth: 1
    tasks.cls.pretrain.decoder_heads: 3
    tasks.cls.dense.length: {steps}
    tasks.cls.method.length: {steps}
    tasks.cls.dense.log_steps: 2
    tasks.cls.method.log_steps: 2
    tasks.cls.dense.checkpoint_seconds: 0.1
    tasks.cls.method.checkpoint_seconds: 0.1
"""
TARGETS = ("all", "audit")
COMPARED = re.compile(r"model\.safetensors|per_sample\.npz|values\.csv|fig_\w+\.(pdf|png|csv)")
KINDS = ("evaluate", "probe", "gather", "verify", "table", "figure", "headline", "publish", "audit", "train", "data")
"""What `tap` is called with by the jobs, those last that other kills leave done: waiting for one is a new beginning."""
END_WITHIN_S = 30
DATA = Path("data", "fashion_mnist")


class Watched:
    """A folder in which the workflow is run and killed."""

    def __init__(self, place: Path, environment: Mapping[str, str], targets: Sequence[str]) -> None:
        self.place, self.environment, self.targets = place, environment, targets

    def start(self, log: Path) -> subprocess.Popen[bytes]:
        with open(log, "ab") as file:
            command = [sys.executable, "-m", "snakemake", *self.targets]
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

    def ended(self) -> float:
        """Waits until nothing of the workflow is at work any more, and says how many seconds that took."""
        begun = time.monotonic()
        while left := self.jobs():
            assert time.monotonic() - begun < END_WITHIN_S, f"orphans {left}, {END_WITHIN_S} s after the workflow's end"
            time.sleep(0.05)
        return time.monotonic() - begun

    def kinds(self) -> set[str]:
        """Kinds of the jobs at work."""
        found = set()
        for number in self.jobs():
            try:
                words = Path(f"/proc/{number}/cmdline").read_text().split("\0")
            except OSError:  # it has ended meanwhile
                continue
            found |= {after for word, after in pairwise(words) if word.endswith("/tap") and after in KINDS}
        return found

    def states(self) -> dict[Path, int]:
        """Saved states of trainings that have not ended, with their times."""
        found = {}
        for path in (self.place / ".tap" / "resume").rglob("[!.]*.state"):  # with a dot: still being written
            try:
                found[path] = path.stat().st_mtime_ns
            except FileNotFoundError:  # renamed or removed meanwhile
                continue
        return found

    def torn(self) -> list[Path]:
        return [path for path in self.place.rglob(".*.tmp*") if ".snakemake" not in path.parts]


class Folder(Watched):
    """A copy of the project."""

    def __init__(self, place: Path, data: Path, steps: int, targets: Sequence[str]) -> None:
        super().__init__(place, {**os.environ, "PYTHONPATH": str(place), "OMP_NUM_THREADS": "1"}, targets)
        for name in ("tap", "workflow"):
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(data, place / DATA)
        (place / "params.yaml").write_text(PARAMS.format(steps=steps))

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *arguments], cwd=self.place, env=self.environment, capture_output=True, text=True
        )

    def begin(self) -> None:
        """As before the first job, but for downloads: data are verified and described anew."""
        for name in ("results", "paper_tables", "paper_figures", ".tap", ".snakemake"):
            shutil.rmtree(self.place / name, ignore_errors=True)
        for name in ("manifest.json", "record.json"):
            (self.place / DATA / name).unlink(missing_ok=True)

    def results(self) -> dict[str, bytes]:
        files = [path for path in (self.place / "results").rglob("*") if COMPARED.fullmatch(path.name)]
        return {path.relative_to(self.place).as_posix(): path.read_bytes() for path in sorted(files)}


def kill_and_go_on(folder: Watched, moment: float, log: Path, wait: str) -> tuple[str, set[str]] | None:
    """Starts the workflow, kills Snakemake after some seconds, and waits until its jobs have ended too.

    Args:
        folder: where.
        moment: seconds, from the start or from when that began which is waited for.
        log: file for what the workflow says.
        wait: what to wait for first: nothing if empty, ``state`` for a training that has saved one, or a kind of job.

    Returns:
        What was going on, and the kinds of jobs that were at work, empty if the awaited training had just ended; None
        if the workflow finished before.
    """
    before, workflow = folder.states(), folder.start(log)
    while wait and workflow.poll() is None:
        if (folder.states().items() - before.items()) if wait == "state" else wait in folder.kinds():
            break
        time.sleep(0.02)
    try:
        workflow.wait(moment)
        assert workflow.returncode == 0, f"{log.read_text()[-3000:]}\nexit status {workflow.returncode}"
        return None
    except subprocess.TimeoutExpired:
        pass
    running, kinds = len(folder.jobs()) - 1, folder.kinds()
    workflow.send_signal(signal.SIGKILL)
    workflow.wait()
    took = folder.ended()
    if wait == "state" and not folder.states():
        return "", kinds
    when = {"": "at any moment", "state": "in a training"}.get(wait, f"waiting for {wait}")
    at_work = f"{running} processes at work ({', '.join(sorted(kinds)) or 'no job'})"
    return f"killed {when} with {at_work}; all ended within {took:.2f} s", kinds


def stress(place: Path, data: Path, kills: int, seed: int, steps: int, targets: Sequence[str] = TARGETS) -> list[str]:
    """Kills the workflow `kills` times, lets it finish, and compares with a run that nobody killed.

    Args:
        place: an empty folder.
        data: the prepared images.
        kills: how many.
        seed: of the moments.
        steps: of each training.
        targets: of the workflow.

    Returns:
        What happened, line by line.
    """
    quiet, killed = (Folder(place / name, data, steps, targets) for name in ("quiet", "killed"))
    quiet.begin()
    killed.begin()
    begun = time.monotonic()
    assert quiet.start(place / "quiet.log").wait() == 0, (place / "quiet.log").read_text()[-3000:]
    usual = time.monotonic() - begun
    rng, log, lines = random.Random(seed), place / "killed.log", [f"undisturbed: {usual:.0f} s"]
    longest, soon, hit = usual / 3, 0.5, Counter(dict.fromkeys(KINDS, 0))
    while len(lines) <= kills:
        wait = ("", "state", min(hit, key=hit.__getitem__))[len(lines) % 3]
        moment = rng.uniform(1.0, longest) if not wait else rng.uniform(0.0, soon)
        happened = kill_and_go_on(killed, moment, log, wait)
        if happened is None:  # through before the kill: once more from the start, with earlier kills
            assert killed.results() == quiet.results(), "other bytes than without the kills"
            killed.begin()
            longest = max(5.0, longest / 2)
            continue
        text, kinds = happened
        if not text:  # trainings are shorter on this machine
            soon /= 2
            continue
        hit.update(kinds)
        lines.append(f"kill {len(lines)}: {text}")
        print(lines[-1], flush=True)
    assert killed.start(log).wait() == 0, log.read_text()[-3000:]
    text = log.read_text()
    for wrong in ("LockException", "IncompleteFilesException", "another workflow is running", "is being written"):
        assert wrong not in text, wrong
    resumed = text.count("goes on at step")
    assert resumed > 0 or kills < 2, "no training went on from a saved state"
    assert killed.results() == quiet.results(), "other bytes than without the kills"
    killed.ended()
    assert not killed.torn(), killed.torn()
    verified = killed.call("tap.cli", "verify")
    assert verified.returncode == 0, verified.stderr
    left = killed.call("snakemake", *targets, "--dry-run")
    assert "Nothing to be done" in left.stdout + left.stderr, left.stdout[-2000:]
    lines.append(f"kills by kind of job: {', '.join(f'{kind} {count}' for kind, count in hit.items())}")
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
        lines = stress(Path(place), arguments.data, arguments.kills, arguments.seed, arguments.steps)
        print(*lines[-2:], sep="\n")


if __name__ == "__main__":
    main()
