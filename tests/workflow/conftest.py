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

    def call(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a command of the Python environment in the folder, with the folder's code."""
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if check:
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done

    @property
    def environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {
            **os.environ,
            "PATH": path,
            "PYTHONPATH": str(self.folder),
            "OMP_NUM_THREADS": "1",
            "DVC_NO_ANALYTICS": "1",
        }

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.call("snakemake", *arguments, check=False)

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


PARAMS = """\
scale: smoke
tasks: [cls]
overrides:
  smoke:
    keep_rates: [0.5]
    tasks.cls.methods: [dense, tap]
    tasks.cls.pretrain.share: null # a backbone of its own, so that no other task's images are needed
    tasks.cls.pretrain.decoder_width: 48
    tasks.cls.pretrain.decoder_depth: 1
    tasks.cls.pretrain.decoder_heads: 3
    tasks.cls.pretrain.train: # long enough to be killed in
      {length: 40, unit: steps, batch_size: 16, optimizer: {lr: 1.0e-3}, checkpoint_seconds: 0.1}
"""
DATA = ROOT / "data" / "fashion_mnist"
KEPT_RESULTS = "/results/*/checkpoints/\n/results/*/runs/**/*.safetensors\n"  # here git keeps small results
KEPT_BY_GIT = (".dvc/config", ".dvc/.gitignore", ".dvcignore", "dvc.yaml", "pyproject.toml")


class Repository(Project):
    """A project in git, with DVC and a remote in a folder beside it."""

    @classmethod
    def build(cls, folder: Path) -> "Repository":
        """Makes the results through `dvc repro`, commits what git keeps, and pushes what DVC keeps."""
        folder.mkdir()
        made = cls(folder)
        (folder / "params.yaml").write_text(PARAMS)
        (folder / ".dvc").mkdir()
        for name in KEPT_BY_GIT:
            shutil.copy(ROOT / name, folder / name)
        ignored = (ROOT / ".gitignore").read_text().replace("/results/\n", KEPT_RESULTS)
        (folder / ".gitignore").write_text(ignored)
        shutil.copytree(DATA, folder / "data" / "fashion_mnist", ignore=shutil.ignore_patterns("record.json"))
        made.call("git", "init", "--quiet", "--initial-branch=main")
        made.commit("start")
        made.call("tap", "data", "prepare", "cls")
        made.call("dvc", "repro")
        made.call("dvc", "remote", "add", "--default", "beside", str(folder.parent / "remote"))
        made.call("dvc", "push")
        made.commit("results")
        return made

    def clone(self, folder: Path) -> "Repository":
        """`git clone` and `dvc pull`; nothing is restored yet."""
        clone = Repository.__new__(Repository)
        clone.folder = folder
        subprocess.run(["git", "clone", "--quiet", str(self.folder), str(folder)], check=True)
        clone.call("dvc", "pull")
        return clone

    def commit(self, message: str) -> None:
        self.call("git", "add", "--all")
        self.call("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", message)


BITS = ("model.safetensors", "per_sample.npz", "values.csv", "fig_insight.png")


class Clone(Repository):
    """A clone of this project with settings of a few methods, and the original data files beside it."""

    @classmethod
    def of(cls, origin: Path, folder: Path) -> "Clone":
        clone = cls.__new__(cls)
        clone.folder = folder
        subprocess.run(["git", "clone", "--quiet", str(origin), str(folder)], check=True)
        shutil.copytree(DATA, folder / "data" / "fashion_mnist", ignore=shutil.ignore_patterns("*.json"))
        return clone

    def make(self) -> str:
        """What makes files in `make reproduce`, once there is an environment, and the audit; says what it said."""
        done = [self.call("tap", "remake"), self.call("snakemake", "all", "audit")]
        return "".join(process.stdout + process.stderr for process in done)

    def reproduce(self) -> None:
        """All of `make reproduce` once there is an environment."""
        self.make()
        self.call("tap", "summary")
        self.call("tap", "compare", "published")

    def bits(self) -> dict[str, bytes]:
        files = sorted(path for path in (self.folder / "results").rglob("*") if path.name in BITS)
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A repository with results, for all slow tests that need some."""
    if not (DATA / "manifest.json").is_file():
        pytest.skip("needs the data: tap data prepare cls")
    return Repository.build(tmp_path_factory.mktemp("evidence") / "original")


@pytest.fixture(scope="session")
def clones(tmp_path_factory):
    """Makes clones, by a name, of this project with few methods and published results, and no results of its own."""
    if not (DATA / "manifest.json").is_file():
        pytest.skip("needs the data: tap data prepare cls")
    made = Repository.__new__(Repository)
    made.folder = tmp_path_factory.mktemp("clones") / "origin"
    made.folder.mkdir()
    for name in ("tap", "workflow", "published"):
        shutil.copytree(ROOT / name, made.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".gitignore", made.folder)
    (made.folder / "params.yaml").write_text(PARAMS)
    made.call("git", "init", "--quiet", "--initial-branch=main")
    made.commit("start")
    return lambda name: Clone.of(made.folder, made.folder.parent / name)


@pytest.fixture(scope="session")
def finished(clones):
    """A clone in which the first command has been given."""
    clone = clones("first")
    planned = clone.planned()
    assert planned["pretrain"] == 1, "published results are no input"
    assert planned["train_dense"] == 2
    clone.reproduce()
    assert clone.planned("all", "audit") == {}
    return clone
