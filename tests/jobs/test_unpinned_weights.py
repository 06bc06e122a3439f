"""Every training from a file of weights that no hash pins says so, that of several tasks as well."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from typer.testing import CliRunner

from tap import cli
from tap.provenance.files import sha256_file

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Runs a command of training in a project with such a file, up to the training itself."""
    shutil.copytree(ROOT / "workflow" / "scales", tmp_path / "workflow" / "scales")
    (tmp_path / "mae.pth").write_bytes(b"weights")
    monkeypatch.chdir(tmp_path)
    trained = []
    for module, function in (("job", "train_run"), ("joint_job", "train_joint_run")):
        found = SimpleNamespace(**{function: lambda *arguments: trained.append(arguments)})
        monkeypatch.setitem(sys.modules, f"tap.engine.{module}", found)

    def call(*words, **pretrain):
        given = {"weights": "mae.pth", "sha256": None, "size": None, **pretrain}
        settings = {f"tasks.{task}.pretrain.{name}": given[name] for task in ("cls", "seg", "det") for name in given}
        content = {"scale": "paper", "overrides": {"paper": {"device": "cpu", **settings}}}
        Path("params.yaml").write_text(yaml.safe_dump(content))
        result = CliRunner().invoke(cli.app, list(words), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert len(trained) == 1
        return result.stderr

    return call


COMMANDS = [("train", "cls/dense/r1.00/main/s0"), ("train-joint", "tap_f/r0.50/main/s0")]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_training_says_the_hash_of_its_weights(train, words):
    said = train(*words)
    assert f"{words[1]}: mae.pth is not pinned; put `tasks.cls.pretrain.sha256: {sha256_file(Path('mae.pth'))}`" in said


@pytest.mark.parametrize("words", COMMANDS)
def test_nothing_is_said_of_a_pinned_file(train, words):
    assert "pinned" not in train(*words, sha256="0" * 64)


def test_one_process_of_several_says_it(train, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert "pinned" not in train(*COMMANDS[1])
