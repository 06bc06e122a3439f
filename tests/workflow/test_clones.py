"""Clones: the first command makes everything, the same command brings back what is deleted, and weights travel."""

import os
import shutil

import pytest

from tap.config import load_scale
from tap.jobs.staleness import Today
from tap.provenance.finding import Kind
from tap.provenance.verify import verify

# One worker: they share what takes long to build.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("clones")]
RUNS = "results/smoke/runs/cls"
DELETED = (
    ["data/fashion_mnist/train-labels-idx1-ubyte"],
    [f"{RUNS}/mae"],
    [f"{RUNS}/tap/r0.50/main/s0/model.safetensors", f"{RUNS}/tap/r0.50/main/s0/metrics.json"],
    [f"{RUNS}/tap/r0.50/main/s0/run.json", f"{RUNS}/dense/r1.00/main/s0/evaluation.json"],
    ["results/smoke/tidy_cls.csv", "results/smoke/figures/fig_insight.png", "paper_tables/tab_cls.tex"],
)
TAMPERED = (
    "data/fashion_mnist/t10k-images-idx3-ubyte",
    f"{RUNS}/dense/r1.00/main/s0/model.safetensors",
    f"{RUNS}/tap/r0.50/main/s0/metrics.json",
    f"{RUNS}/tap/r0.50/main/s0/per_sample.npz",
    "results/smoke/tidy_cls.csv",
    "results/smoke/probes/cls/layers/values.csv",
    "results/smoke/tables/tab_cls.tex",
    "results/smoke/headline.json",
    "results/smoke/audit/audit.html",
    "paper_figures/fig_insight.png",
)


@pytest.fixture(scope="module")
def judged(finished):
    """Settings of the finished clone, and what the workflow would make today."""
    cfg = load_scale("smoke", root=finished.folder)
    return cfg, Today(cfg)


def flipped(content: bytes) -> bytes:
    """One bit in the middle."""
    return content[: len(content) // 2] + bytes([content[len(content) // 2] ^ 1]) + content[len(content) // 2 + 1 :]


def shortened(content: bytes) -> bytes:
    """The second half is lost."""
    return content[: len(content) // 2]


def lengthened(content: bytes) -> bytes:
    """A byte more."""
    return content + b" "


@pytest.mark.parametrize("change", [flipped, shortened, lengthened], ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_found_and_named(finished, judged, name, change):
    cfg, today = judged
    path = finished.folder / name
    content, times = path.read_bytes(), path.stat()
    path.write_bytes(change(content))
    found = verify(cfg, today.staleness, root=finished.folder)
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (found.findings[0].path, found.findings[0].kind) == (name, Kind.EDITED)


@pytest.mark.parametrize("names", DELETED, ids=lambda names: names[0].rpartition("/")[2])
def test_the_same_command_brings_back_what_is_deleted_with_the_same_bits(finished, names):
    before = finished.bits()
    for name in names:
        path = finished.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    finished.make()
    assert all((finished.folder / name).exists() for name in names)
    assert finished.bits() == before
    finished.call("tap", "verify")


def test_after_all_that_nothing_is_left_to_do(finished):
    assert finished.planned() == {}


def test_weights_travel_to_another_clone(finished, clones):
    finished.call("tap", "publish", "bundle")
    clone = clones("second")
    clone.call("tap", "restore", "--bundle", str(finished.folder / "bundles/smoke.tar.gz"))
    assert clone.planned() == {}
    assert clone.bits() == finished.bits()
    clone.call("tap", "verify", "--deep")
