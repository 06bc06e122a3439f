"""Sweeps through DVC: what the documentation says queues an experiment for each value, with settings that are right."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tap.config import load_scale

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_keep_rates_and_seeds_are_swept_through_dvc(tmp_path):
    for name in ("dvc.yaml", "params.yaml", ".gitignore", ".dvcignore"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".dvc").mkdir()
    shutil.copy(ROOT / ".dvc" / "config", tmp_path / ".dvc")
    shutil.copytree(ROOT / "workflow" / "scales", tmp_path / "workflow" / "scales")

    def call(*command):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "DVC_NO_ANALYTICS": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    call("git", "init", "--quiet")
    for name, value in (("name", "a"), ("email", "a@example.org")):
        call("git", "config", f"user.{name}", value)
    call("git", "add", "--all")
    call("git", "commit", "--quiet", "-m", "start")
    call(
        "dvc", "exp", "run", "--queue", "-S", "++overrides.paper.keep_rates=[0.3],[0.5]",
        "-S", "++overrides.paper.tasks.cls.seeds=[0,1]",
    )  # fmt: skip
    queued = call("git", "log", "--walk-reflogs", "--format=%H", "refs/exps/celery/stash").split()
    rates = set()
    for commit in queued:
        (tmp_path / "params.yaml").write_text(call("git", "show", f"{commit}:params.yaml"))
        cfg = load_scale("paper", root=tmp_path)
        assert cfg.tasks["cls"].seeds == (0, 1)
        rates.add(cfg.keep_rates)
    assert rates == {(0.3,), (0.5,)}
