"""New results beside published ones."""

import json
import shutil

import pytest

from tap.paper.compare_published import compare_with_published, summary
from tap.provenance.record import sealed

RUN = "results/desk/runs/cls/tap/r0.50/main/s0"


@pytest.fixture
def both(results):
    """Two runs, which are published too."""
    for method, accuracy in (("dense", 0.9), ("tap", 0.8)):
        results.run(method, accuracy)
    shutil.copytree(results.root / "results/desk", results.root / "published/desk")
    return results


def test_the_same_bits_are_said_to_be_the_same(both):
    assert [beside.same for beside in compare_with_published("desk", both.root)] == [True, True]
    assert summary("desk", both.root) == "Beside published/desk: 2 of 2 runs have the same bits."
    assert "cls/tap/r0.50/main/s0: the same bits" in summary("desk", both.root, everything=True)


def test_other_bits_stand_beside_with_interval_and_what_differs(both):
    shutil.rmtree(both.root / RUN)
    both.run("tap", 0.7)
    for folder, device in (("results", "another machine"), ("published", "a machine")):
        path = both.root / RUN.replace("results", folder) / "run.json"
        content = {**json.loads(path.read_text()), "job": "train", "outputs": {}, "inputs": {}, "device": device}
        path.write_text(sealed({**content, "versions": {"torch": "2" if folder == "results" else "1"}}))
    dense, tap = compare_with_published("desk", both.root)
    assert dense.same
    assert not tap.same
    found = tap.differences["top1"]
    assert found.estimate == pytest.approx(-10.0)
    assert -15 < found.low < found.estimate < found.high < -5
    assert tap.circumstances == ("device a machine -> another machine", "torch 1 -> 2")
    text = summary("desk", both.root)
    assert "1 of 2 runs have the same bits" in text
    assert "cls/tap/r0.50/main/s0: top1 -10.00 [" in text
    assert "(device a machine -> another machine; torch 1 -> 2)" in text


def test_settings_of_the_start_that_a_run_goes_on_from_are_named(both):
    """The run's own settings are the same then; what differs is what its weights come from."""
    shutil.rmtree(both.root / RUN)
    both.run("tap", 0.7)
    start = RUN.replace("tap/r0.50/main", "dense/r1.00/start")
    for folder, length in (("results", 1350), ("published", 900)):
        read = {
            f"{start}/model.safetensors": {"sha256": str(length), "bytes": 1},
            f"{start}/run.json": {"sha256": f"record {length}", "made": str(length), "bytes": 1},
            "data/cls/manifest.json": {"sha256": f"data {length}", "bytes": 1},
        }
        for run, spec, inputs in ((RUN, "its own", read), (start, f"length {length}", {})):
            path = both.root / run.replace("results", folder, 1) / "run.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            own = {"seal": "", "job": "train", "outputs": {}, "versions": {}, "device": "cpu"}
            path.write_text(sealed({**own, "spec": spec, "inputs": inputs}))
    _, tap = compare_with_published("desk", both.root)
    assert tap.circumstances == ("other data/cls/manifest.json", "other settings of cls/dense/r1.00/start/s0")


def test_without_published_or_new_results_it_says_so(both):
    shutil.rmtree(both.root / "results")
    assert "has no run that is published too" in summary("desk", both.root)
    shutil.rmtree(both.root / "published")
    assert summary("desk", both.root) == "Nothing is published of scale desk to compare with."
