import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Project:
    """A copy of this project in a folder of its own, with the copy's code in use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("tap", "workflow"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "params.yaml").write_text("scale: smoke\n")

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "snakemake", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )

    def planned(self, *arguments: str) -> dict[str, int]:
        """How many jobs of each rule a dry run counts."""
        result = self.snakemake(*arguments, "--dry-run")
        assert result.returncode == 0, result.stderr
        table = re.search(r"^job +count\n[- ]+\n((?:\w+ +\d+\n)+)", result.stdout + result.stderr, flags=re.MULTILINE)
        if table is None:
            assert "Nothing to be done" in result.stdout + result.stderr
            return {}
        counts = {name: int(count) for name, count in (line.split() for line in table[1].splitlines())}
        assert counts.pop("total") == sum(counts.values())
        return counts

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text()
        assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times"
        path.write_text(text.replace(old, new))


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)
