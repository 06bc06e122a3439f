"""A full disk: one message with the file and what to do, and what was there before is there still."""

import errno
import os
import subprocess
import sys
from contextlib import chdir, contextmanager
from pathlib import Path

import numpy as np
import pooch
import pytest
import torch
from matplotlib.figure import Figure

from tap import cli
from tap.engine.checkpoint import save_weights
from tap.engine.job import train_run
from tap.engine.reporting import Display
from tap.engine.resume import ResumeStates
from tap.errors import UserError
from tap.paper import crate
from tap.provenance import checkpoints
from tap.provenance.files import atomic_write, writing
from tap.tasks import picture_files, pictures, sources

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

from toy_task import ToyTask, toy_spec

NOISE = np.random.default_rng(0).bytes(400_000)
MESSAGE = r"cannot be written, the disk is full \(No space left on device\); make room"


@pytest.fixture
def disk(tmp_path):
    """A file system of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False) if os.geteuid() == 0 else None
    if done is None or done.returncode != 0:
        pytest.skip("a small file system needs the right to mount one" + (f": {done.stderr}" if done else ""))
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def full(name):
    """What runs inside ends in the one message, which names a file or folder."""
    with pytest.raises(UserError, match=MESSAGE) as found:
        yield
    assert "\n" not in str(found.value)
    assert str(found.value).startswith(f"{name}: ")


class Crate:
    """A crate that writes `content`."""

    def __init__(self, content):
        self.content = content

    def write(self, folder):
        Path(folder).mkdir()
        (Path(folder) / "ro-crate-metadata.json").write_bytes(self.content)


def save_picture(path):
    figure = Figure(figsize=(6, 6))
    figure.subplots().imshow(np.frombuffer(NOISE[:250_000], dtype=np.uint8).reshape(500, 500), interpolation="none")
    pictures.save(figure, path)


def give_second_name(path):
    weights = path.parent.parent / "weights"
    weights.write_bytes(NOISE)
    checkpoints._second_name(weights, path)


WRITERS = {
    "bytes": ("old", lambda path: atomic_write(path, NOISE)),
    "text": ("old", lambda path: atomic_write(path, NOISE.hex())),
    "weights": ("old", lambda path: save_weights(path, {"a": torch.tensor(list(NOISE), dtype=torch.uint8)}, {})),
    "tile": (
        "old.png",
        lambda path: picture_files.save_picture(path, np.frombuffer(NOISE, dtype=np.uint8).reshape(500, 800)),
    ),
    "picture": ("old.png", save_picture),
    "second name": ("old", give_second_name),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_the_older_file_stays(disk, kind):
    name, write = WRITERS[kind]
    (disk / name).write_bytes(b"old")
    with full(disk / name):
        write(disk / name)
    assert (disk / name).read_bytes() == b"old"
    assert [file for file in os.listdir(disk) if file != name] in ([], [".old.tmp"])


@pytest.mark.parametrize("code", [b"", NOISE])
def test_the_older_crate_stays(disk, code):
    for name in ("tap", "workflow"):
        (disk.parent / name).mkdir()
        (disk.parent / name / "code").write_bytes(code)
    (disk / "crate").mkdir()
    (disk / "crate" / "old").touch()
    with full(disk / "crate"):
        crate._write(Crate(b"" if code else NOISE), disk.parent, disk / "crate")
    assert os.listdir(disk) == ["crate"]
    assert os.listdir(disk / "crate") == ["old"]


def test_the_older_resume_state_is_used(disk):
    states = ResumeStates(disk, {}, print)
    states.save(1, {"a": 1})
    with pytest.raises(UserError, match=rf"step-000000002-.*\.state: {MESSAGE}"):
        states.save(2, {"a": torch.zeros(100_000)})
    assert states.load() == {"a": 1}


def test_a_download_says_so_instead_of_trying_the_next_address(disk, monkeypatch):
    class Downloader:
        def __init__(self, **_):
            pass

        def __call__(self, url, path, _):
            assert url == "https://example.org/first"
            Path(path).write_bytes(NOISE)

    monkeypatch.setattr(pooch, "HTTPDownloader", Downloader)
    urls = "https://example.org/first", "https://example.org/second"
    with full(disk / "new"):
        sources.public_download({"new": urls}, disk).fetch()


@pytest.mark.parametrize("when", ["opened", "written"])
def test_tensorboard(disk, when, capfd):
    if when == "opened":
        (disk / "other").write_bytes(NOISE[: 256 << 10])
    with full(disk), Display("run", 1000, 0, 1, events=disk, quiet=True) as display:
        if when == "written":
            (disk / "other").write_bytes(NOISE[: 252 << 10])
        for step in range(1000):
            display.row({"step": step, "loss": 0.1, "lr": 0.1})
    assert "Traceback" not in capfd.readouterr().err


def test_errors_of_the_program_keep_their_traceback(tmp_path):
    with pytest.raises(ValueError, match="a defect"), writing(tmp_path):
        raise ValueError("a defect")


def test_whatever_else_is_written_ends_in_one_line_too(monkeypatch, capsys):
    def work():
        raise OSError(errno.ENOSPC, "No space left on device", "some/file")

    monkeypatch.setattr(cli, "app", work)
    with pytest.raises(SystemExit) as ended:
        cli.run()
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: some/file: cannot be written, the disk is full")


def test_a_training_goes_on_by_the_same_command_when_there_is_room(disk, tmp_path):
    """The place gives out in the middle; with more of it the end has the bits of a training in one go."""

    def train(folder):
        with chdir(folder):
            train_run(toy_spec(width=24), ToyTask())

    run = Path("results/smoke/runs/cls/dense/r1.00/main/s0")
    plain = tmp_path / "plain"
    plain.mkdir()
    train(plain)
    with pytest.raises(UserError, match="the disk is full"):
        train(disk)
    assert not (disk / run / "model.safetensors").exists()
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    train(disk)
    for name in ("model.safetensors", "log.csv"):
        assert (disk / run / name).read_bytes() == (plain / run / name).read_bytes()
