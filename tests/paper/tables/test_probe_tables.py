"""Tables of the probes against plain loops over what the probes wrote."""

import hashlib
import io
import json

import numpy as np
import pandas as pd
import pytest

from tap.config.methods import CRITERIA, SCORES
from tap.errors import UserError
from tap.paper.evidence import Evidence
from tap.paper.reported import load_reported
from tap.paper.tables import tab_criterion_summary
from tap.paper.tables.build import build_table, load_table, render_table
from tap.plan.results import floor_runs

SUMMARY, PAIRED, CRITERIA_TABLE = (load_table(f"tab_{n}") for n in ("criterion_summary", "paired_recovery", "criteria"))


def texts(table, evidence: Evidence) -> dict[str, str]:
    return {suffix: content.decode() for suffix, content in render_table(table.name, evidence).items()}


def layers(drop_of: dict[str, float], blocks: tuple[int, ...], endpoint: float | None) -> dict:
    """Constant drops plus what depends on the block alone."""
    return {(name, block, endpoint): drop + 0.5 * block for name, drop in drop_of.items() for block in blocks}


@pytest.fixture
def measured(results) -> Evidence:
    """All criteria: dense tasks rank them in opposite ways."""
    rising = {name: 2.0 * number for number, name in enumerate(CRITERIA)}
    falling = {name: 2.0 * number for number, name in enumerate(reversed(CRITERIA))}
    results.probe("cls", "layers", layers(rising, (1, 2, 3), None))
    results.probe("seg", "layers", layers(rising, (1, 2, 3), 1.0))
    results.probe("det", "layers", layers(falling, (3, 6), 0.0))
    drops = {("coverage", block, alpha): 5.0 - 3.0 * alpha for block in (1, 3, 6) for alpha in (0.0, 1.0)}
    results.probe("seg", "recovery", drops, seeds=(0, 1, 2))
    return Evidence("desk", results.root)


def test_mean_drops_and_ranks(measured: Evidence) -> None:
    cells = SUMMARY.cells(measured)
    for task, order in (("cls", CRITERIA), ("seg", CRITERIA), ("det", tuple(reversed(CRITERIA)))):
        probe = measured.probe(task, "layers")
        scored = probe.frame[probe.frame["metric"] == SCORES[task][0]]
        frame = scored.set_index(["criterion", "layer"])["value"]
        for place, name in enumerate(order):
            drops = [frame["dense", 0] - frame[name, layer] for layer in probe.layers]
            assert cells[name, task].mean == pytest.approx(np.mean(drops))
            assert cells[name, task].runs == (f"probes/{task}/layers", f"{task}/dense/r1.00/main/s0")
            if task != "cls":
                assert cells[name, f"{task}_rank"].mean == place + 1
    coverage = cells["coverage", "cls"]
    assert coverage.interval.low < coverage.mean < coverage.interval.high
    assert cells["coverage", "det"].interval is None
    assert ("coverage", "cls_rank") not in cells


def test_the_caption_tells_protocol_and_correlation(measured: Evidence) -> None:
    contents = texts(SUMMARY, measured)
    assert "seg: blocks 1 to 3, local keep rate 0.5, endpoint 1, 300 images, seed 0." in contents[".tex"]
    assert "det: blocks 3, 6, local keep rate 0.5, endpoint 0, 300 images, seed 0." in contents[".tex"]
    assert "Spearman correlation of the two dense rankings: -1.00." in contents[".tex"]
    assert r"Activation $\ell_1$ & " in contents[".tex"]
    assert "Device: a machine." in contents[".tex"]
    assert " (11) " in contents[".tex"]


def test_equal_drops_share_a_rank(results) -> None:
    drops = dict.fromkeys(CRITERIA, 3.0) | {"coverage": 1.0}
    results.probe("seg", "layers", layers(drops, (1,), 1.0))
    cells = SUMMARY.cells(Evidence("desk", results.root))
    assert cells["coverage", "seg_rank"].mean == 1
    assert {cells[name, "seg_rank"].mean for name in CRITERIA if name != "coverage"} == {6.5}


def test_paired_recovery_takes_differences_within_a_seed(measured: Evidence) -> None:
    cells = PAIRED.cells(measured)
    assert {row for row, _ in cells} == {"seg_1", "seg_3", "seg_6"}
    difference = cells["seg_3", "difference"]
    assert difference.mean == pytest.approx(1.5, abs=0.3)
    assert difference.seeds == (0, 1, 2)
    frame = measured.probe("seg", "recovery").frame
    by_seed = [
        frame[(frame["layer"] == 3) & (frame["seed"] == seed) & (frame["endpoint"] == 1.0)]["value"].item()
        - frame[(frame["layer"] == 3) & (frame["seed"] == seed) & (frame["endpoint"] == 0.0)]["value"].item()
        for seed in range(3)
    ]
    assert difference.mean == pytest.approx(np.mean(by_seed))
    assert cells["seg_3", "difference_sd"].mean == pytest.approx(np.std(by_seed, ddof=1))
    assert cells["seg_3", "full_offset"].sd > 0.3, "the seeds differ by half a point, their differences do not"
    assert difference.interval.low > 0
    assert cells["seg_3", "anchor"].mean == pytest.approx(40.0)
    tex = texts(PAIRED, measured)[".tex"]
    assert "No pruning: 40.0 mIoU." in tex
    assert r"Det mask & 12 & -- & -- & -- \\" in tex


def test_blocks_that_the_paper_does_not_list_are_rows_too(measured: Evidence) -> None:
    contents = texts(PAIRED, measured)
    body = contents[".tex"].split(r"\midrule", 1)[1]
    assert body.count(r"\\") == len(load_reported("tab:paired-recovery").rows) + 1
    assert r"Seg$^\ddagger$ & 1 & " in body
    assert r"$^\ddagger$ not in the paper." in body
    frame = pd.read_csv(io.StringIO(contents[".csv"])).set_index(["row", "column"])
    assert frame.loc[("seg_1", "difference"), "value"] == PAIRED.cells(measured)["seg_1", "difference"].mean
    assert frame.loc[("seg_1", "difference"), "name"] == "Seg"
    assert not frame.loc[("seg_1", "difference"), "in_paper"]
    assert frame.loc[("seg_3", "difference"), "in_paper"]
    beside = pd.read_csv(io.StringIO(contents[".compare.csv"])).set_index(["row", "metric"])
    assert np.isnan(beside.loc[("seg_1", "difference"), "reported"])
    assert beside.loc[("seg_1", "difference"), "verdict"] == "not reported"
    assert beside.loc[("seg_1", "difference"), "measured"] > 0
    assert "| Seg 1 (not in the paper) | " in contents[".compare.md"]


def test_one_seed_has_no_deviation(results) -> None:
    drops = {("coverage", block, alpha): 5.0 - alpha for block in (3, 6, 9, 12) for alpha in (0.0, 1.0)}
    for task in ("seg", "det"):
        results.probe(task, "recovery", drops)
    tex = texts(PAIRED, Evidence("desk", results.root))[".tex"]
    assert tex.count(r"\pm") == 1, "the head's"
    assert "Where an SD is missing: one seed, so no SD." in tex
    assert "has not been measured" not in tex


@pytest.mark.parametrize(("floor", "warnings"), [(0.7, 0), (0.9, 1)])
def test_captions_warn_of_a_task_below_its_floor(measured: Evidence, results, floor: float, warnings: int) -> None:
    runs = [results.run("dense", 0.8, task="seg"), results.run("dense", floor, task="seg", variant="random-encoder")]
    results.gather(*runs)
    for table in (SUMMARY, PAIRED):
        contents = texts(table, measured)
        assert contents[".tex"].count("On seg no pruning is not above every floor") == warnings
        assert contents[".compare.md"].count("On seg no pruning is not above every floor") == warnings


@pytest.mark.parametrize(("least", "said"), [(0.0, False), (-4.0, True)])
def test_a_gain_over_no_pruning_is_explained(results, least: float, said: bool) -> None:
    results.probe("cls", "layers", layers({"random": 3.0, "coverage": least}, (1, 2), None))
    note = tab_criterion_summary.note(Evidence("desk", results.root))
    assert ("A negative drop is a gain over no pruning." in note) == said


def test_rankings_without_a_common_criterion_have_no_correlation(results) -> None:
    for task, name in (("seg", "random"), ("det", "coverage")):
        results.probe(task, "layers", {(name, 3, 1.0): 4.0})
    assert "The dense rankings have no correlation" in tab_criterion_summary.note(Evidence("desk", results.root))


def test_definitions_come_from_the_registry(measured: Evidence) -> None:
    contents = texts(CRITERIA_TABLE, measured)
    rows = [line for line in contents[".tex"].splitlines() if line.endswith(r" \\")][1:]
    assert [row.split(" & ")[0] for row in rows][:3] == ["Random", "Attention mean", "Attention max"]
    assert len(rows) == len(load_reported("tab:criteria").rows) == 11
    assert r"largest $\ell_1$ norm" in contents[".tex"]


def test_a_table_records_the_probes_behind_it(measured: Evidence) -> None:
    verified = measured.root / "results/desk/verified_probes_seg.json"
    verified.write_text("")
    behind = {f"results/desk/{name}" for name in ("tidy_probes_seg.csv", verified.name)}
    files = build_table("tab:paired-recovery", "desk", measured.root / "out", measured.root)
    assert [path.name for path in files][:2] == ["tab_paired_recovery.tex", "tab_paired_recovery.csv"]
    record = json.loads((measured.root / "out/tab_paired_recovery.record.json").read_text())
    per_sample = {f"results/desk/probes/seg/{kind}/per_sample.npz" for kind in ("layers", "recovery")}
    assert behind | per_sample < record["inputs"].keys()


def test_edited_values_of_single_images_are_refused(measured: Evidence) -> None:
    folder = measured.root / "results/desk/probes/seg/recovery"
    told = {"job": "probe", "inputs": {}, "fingerprint": "f", "device": "a machine", "dataset": "microscopy"}
    made = hashlib.sha256((folder / "per_sample.npz").read_bytes()).hexdigest()
    told["outputs"] = {"results/desk/probes/seg/recovery/per_sample.npz": {"sha256": made}}
    (folder / "probe.json").write_text(json.dumps(told))
    build_table("tab:paired-recovery", "desk", measured.root / "out", measured.root)
    with np.load(folder / "per_sample.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["confusion"] = arrays["confusion"][:, ::-1]  # other images, and yet the same scores
    np.savez(folder / "per_sample.npz", **arrays)
    with pytest.raises(UserError, match=r"seg/recovery/per_sample.npz: differs from what"):
        build_table("tab:paired-recovery", "desk", measured.root / "out", measured.root)


def test_a_task_that_the_scale_leaves_out_has_no_floors(results) -> None:
    (results.root / "params.yaml").write_text("scale: desk\ntasks: [cls]\n")
    evidence = Evidence("desk", results.root)
    assert (floor_runs(evidence.settings, "seg"), evidence.caveat("seg")) == ([], "")
