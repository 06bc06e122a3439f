"""Time to verify many results: 2,000 files of 1 GB in total, in 250 records, by default.

    python benchmarks/verify.py
    python benchmarks/verify.py --files 500 --megabytes 100

Builds a project with invented results in a temporary folder, verifies it twice (the second time from the file cache),
and prints the seconds beside those that hashing alone takes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from tap.config import load_scale
from tap.jobs.kinds.train import JOB as TRAIN
from tap.jobs.staleness import Today
from tap.plan.specs import job_spec
from tap.provenance.files import hash_files
from tap.provenance.record import write_record
from tap.provenance.verify import verify
from tap.runs import Run

FILES_PER_RUN = 8


def build(files: int, megabytes: float) -> None:
    """Fills the current folder with runs, each a copy of TAP-J's of classification with another seed."""
    cfg, rng = load_scale("smoke"), np.random.default_rng(0)
    size = int(megabytes * 1e6 / files)
    for seed in range(files // FILES_PER_RUN):
        run = Run("smoke", "cls", "tap", 0.5, seed=seed)
        spec, folder = job_spec(cfg, run), run.folder
        folder.mkdir(parents=True)
        outputs = [folder / f"part{number}.bin" for number in range(FILES_PER_RUN - 1)]
        for path in outputs:
            path.write_bytes(rng.bytes(size))
        write_record(
            folder,
            spec,
            TRAIN.stamp(cfg, run),
            [],
            outputs,
            datetime.now(UTC),
            device="none",
            threads=1,
        )


def timed(call):
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--megabytes", type=float, default=1000.0)
    arguments = parser.parse_args()
    repository = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(repository / "workflow" / "scales", Path(folder) / "workflow" / "scales")
        os.chdir(folder)
        Path("params.yaml").write_text("scale: smoke\n")
        build(arguments.files, arguments.megabytes)
        cfg = load_scale("smoke")
        for attempt in ("first", "second"):
            found, seconds = timed(lambda: verify(cfg, Today(cfg).staleness))
            assert not found.findings, found.findings[0]
            print(f"{attempt} verification: {seconds:.1f} s, {found.summary()}")
        paths = [path for path in Path("results").rglob("*") if path.is_file()]
        print(f"hashing alone: {timed(lambda: hash_files(paths))[1]:.1f} s on {os.cpu_count()} cores")
        os.chdir(repository)


if __name__ == "__main__":
    main()
