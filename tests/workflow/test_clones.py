"""Clones: the first command makes everything, the same command brings back what is deleted, tampering and forgeries are
found, and weights travel. One file, since all share a clone that takes half a minute to build.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tap.config import load_scale
from tap.jobs.staleness import Today
from tap.paper.deep.reevaluation import Sample
from tap.paper.deep.verification import verify_deeply
from tap.paper.scores import scores_of
from tap.provenance.finding import Kind
from tap.provenance.verify import verify
from tap.runs import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "provenance"))
sys.path.insert(0, str(Path(__file__).parents[1] / "stress"))

from forger import Forger, replaced
from kill import Watched, kill_and_go_on

pytestmark = pytest.mark.slow
RUNS = "results/smoke/runs/cls"
MAE = Run("smoke", "cls", "mae", 1.0).folder
TAP = Run("smoke", "cls", "tap", 0.5).folder
TABLE, AUDIT = Path("results/smoke/tables/tab_cls"), Path("results/smoke/audit/audit.json")
DELETED = (  # of each group, none is made of another
    ["data/fashion_mnist/train-labels-idx1-ubyte"],
    [
        f"{RUNS}/tap/r0.50/main/s0/model.safetensors",
        f"{RUNS}/tap/r0.50/main/s0/metrics.json",
        "results/smoke/tidy_probes_cls.csv",
        "results/smoke/figures/fig_method.pdf",
        "paper_tables/tab_training_config.tex",
    ],
    [f"{RUNS}/tap/r0.50/main/s0/run.json", f"{RUNS}/dense/r1.00/main/s0/evaluation.json"],
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


def test_the_same_command_goes_on_after_a_kill_and_ends_with_the_same_bits(finished, tmp_path):
    before, log = finished.bits(), tmp_path / "killed.log"
    shutil.rmtree(finished.folder / MAE)
    workflow = Watched(finished.folder, finished.environment, [f"{MAE}/model.safetensors"])
    happened, _ = kill_and_go_on(workflow, 0, log, wait="state") or ("the training was through", None)
    assert happened.startswith("killed in a training"), log.read_text()[-3000:]
    assert not (finished.folder / MAE / "model.safetensors").exists()
    assert "goes on at step" in finished.make()
    assert finished.bits() == before
    assert not workflow.torn()
    shown = json.loads((finished.folder / AUDIT).read_text())["root_hash"]
    assert shown in finished.call("tap", "verify").stdout, "the pre-training has another record, with other times"


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
    assert finished.planned("all", "audit") == {}


def a_score(forger: Forger) -> str:
    """More than was measured, with every table, figure and verdict after it."""
    replaced(TAP / "metrics.json", r'"top1": [\d.]+', '"top1": 98.3')
    forger.remake()
    assert "98.3" in TABLE.with_suffix(".tex").read_text()
    return rf"{TAP}/metrics\.json: top1: recorded 98\.3, recomputed "


def an_interval(forger: Forger) -> str:
    """Another bound, in the table and in the copy where a reader looks."""
    header, *lines = TABLE.with_suffix(".csv").read_text().splitlines()
    column = header.split(",").index("low")
    row = next(at for at, line in enumerate(lines) if line.split(",")[column])
    cells = lines[row].split(",")
    cells[column] = "-0.01"
    lines[row] = ",".join(cells)
    for path in (TABLE.with_suffix(".csv"), Path("paper_tables/tab_cls.csv")):
        path.write_text("\n".join([header, *lines]) + "\n")
    forger.reseal()
    return rf"{TABLE}\.csv: line {row + 2} .*, low: recorded -0\.01, recomputed "


def values_of_images(forger: Forger) -> str:
    """Right where the model was wrong, with the score that follows and everything after it."""
    path = TAP / "per_sample.npz"
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["correct"] = np.ones_like(arrays["correct"])
    np.savez_compressed(path, **arrays)
    metrics = json.loads((TAP / "metrics.json").read_text()) | scores_of("cls", arrays)
    (TAP / "metrics.json").write_text(json.dumps(metrics, indent=1) + "\n")
    forger.remake()
    return rf"{TAP}/per_sample\.npz: correct of image .*: recorded (1|True), recomputed (0|False)"


def a_table(forger: Forger) -> str:
    """A cell of the LaTeX that a paper takes in."""
    number = re.search(r"\\\\\n.*?(\d+\.\d)", TABLE.with_suffix(".tex").read_text(), flags=re.DOTALL)[1]
    for path in (TABLE.with_suffix(".tex"), Path("paper_tables/tab_cls.tex")):
        replaced(path, re.escape(number), "99.9")
    forger.reseal()
    return rf"{TABLE}\.tex: line \d+: recorded .*99\.9"


def a_verdict(forger: Forger) -> str:
    """A claim that nothing supports."""
    told = json.loads(AUDIT.read_text())
    claim = next(claim for claim in told["claims"] if claim["verdict"] != "supported")
    before, claim["verdict"] = claim["verdict"], "supported"
    AUDIT.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    forger.reseal()
    return rf"{AUDIT}: claims\[{claim['id']}\]\.verdict: recorded supported, recomputed {before}"


@pytest.mark.parametrize(
    "forge", [a_score, an_interval, values_of_images, a_table, a_verdict], ids=lambda f: f.__name__
)
def test_a_forgery_whose_records_fit_is_found(finished, forge, tmp_path, monkeypatch):
    copy = tmp_path / "forged"
    shutil.copytree(
        finished.folder, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", ".snakemake", "published")
    )
    monkeypatch.chdir(copy)
    expected = forge(Forger(monkeypatch))
    cfg = load_scale("smoke")
    found = verify(cfg, Today(cfg).staleness)
    assert {finding.path for finding in found.findings} == set(), "hashes do not find it"
    lines = verify_deeply(cfg, found, Sample(0, images=10_000)).lines
    assert any(re.match(expected, line) for line in lines), lines


def test_weights_travel_to_another_clone(finished, clones):
    finished.call("tap", "publish", "bundle")
    clone = clones("second")
    clone.call("tap", "restore", "--bundle", str(finished.folder / "bundles/smoke.tar.gz"))
    assert clone.planned() == {}
    assert clone.bits() == finished.bits()
    clone.call("tap", "verify", "--deep")
