"""Clones: the first command makes everything, the same command brings back what is deleted, and weights travel."""

import shutil

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.xdist_group("clones")]
RUNS = "results/smoke/runs/cls"
DELETED = (
    ["data/fashion_mnist/train-labels-idx1-ubyte"],
    [f"{RUNS}/mae"],
    [f"{RUNS}/tap/r0.50/main/s0/model.safetensors", f"{RUNS}/tap/r0.50/main/s0/metrics.json"],
    [f"{RUNS}/tap/r0.50/main/s0/run.json", f"{RUNS}/dense/r1.00/main/s0/evaluation.json"],
    ["results/smoke/tidy_cls.csv", "results/smoke/figures/fig_insight.png", "paper_tables/tab_cls.tex"],
)


@pytest.fixture(scope="module")
def finished(clones):
    """A clone in which the first command has been given."""
    clone = clones("first")
    planned = clone.planned()
    assert planned["pretrain"] == 1, "published results are no input"
    assert planned["train_dense"] == 2
    clone.reproduce()
    assert clone.planned() == {}
    return clone


@pytest.mark.parametrize("names", DELETED, ids=lambda names: names[0].rpartition("/")[2])
def test_the_same_command_brings_back_what_is_deleted_with_the_same_bits(finished, names):
    before = finished.bits()
    for name in names:
        path = finished.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert finished.planned() != {}
    finished.reproduce()
    assert all((finished.folder / name).exists() for name in names)
    assert finished.bits() == before
    assert finished.planned() == {}
    finished.call("tap", "verify")


def test_weights_travel_to_another_clone(finished, clones):
    finished.call("tap", "publish", "bundle")
    clone = clones("second")
    clone.call("tap", "restore", "--bundle", str(finished.folder / "bundles/smoke.tar.gz"))
    assert clone.planned() == {}
    assert clone.bits() == finished.bits()
    clone.call("tap", "verify", "--deep")
