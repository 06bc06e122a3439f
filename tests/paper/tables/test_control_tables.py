"""Tables of controls from invented results: which control stands in which cell, and what is said to be fixed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tap.config.load import load_scale
from tap.errors import UserError
from tap.paper.control_results import read_controls
from tap.paper.estimate import seed_weights
from tap.paper.evidence import Evidence
from tap.paper.statistics import contributions, point, replicates
from tap.paper.tables.build import files_read, render_table
from tap.runs import Run
from tap.seeds import derive_seed

SHARES = np.array([[0.1, 0.3, 0.6], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.3, 0.3, 0.4]])
SCALES = np.array([[0.5, 0.6, 0.7], [0.7, 0.6, np.nan], [0.9, 0.6, 0.3], [0.1, 0.6, 0.5]])


def rows(run, control, value, digest="a" * 64, exact=4):
    common = {"run": run.id, "seed": run.seed, "control": control, "schedule": "per image", "passes": 4}
    common |= {"shares": json.dumps([0.2, 0.3, 0.5]), "exact": exact, "digest": digest}
    return {**common, "metric": "miou", "value": value}


@pytest.fixture
def controlled(project_root):
    """A desk scale with two controlled TAP-F checkpoints of segmentation."""

    def make(digest="a" * 64):
        for seed in (0, 1):
            run = Run("desk", "seg", "tap_f", 0.5, seed=seed)
            folder = project_root / run.folder
            folder.mkdir(parents=True, exist_ok=True)
            lines = [rows(run, "full", 40.0 + seed), rows(run, "oracle", 41.0 + seed)]
            lines += [
                rows(run, "matching_key_learned", 40.0 + seed),
                rows(run, "matching_random_learned", 37.0 - seed, digest),
            ]
            lines += [rows(run, "matching_random_0", 30.0)]
            lines += [rows(run, "mean_allocation", 40.0), rows(run, "mean_allocation_validation", 40.25)]
            pd.DataFrame(lines).to_csv(folder / "controls.csv", index=False)
            oracle = {"oracle_losses": np.zeros((64, 231)), "oracle_blocks": np.array([61, 100])}
            np.savez(folder / "controls.npz", shares=SHARES + seed, scales=SCALES, **oracle)
        return Evidence("desk", project_root)

    return make


@pytest.fixture
def project_root(tmp_path):
    """A folder with the settings of this project alone."""
    here = Path(__file__).parents[3]
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "scales").symlink_to(here / "workflow" / "scales")
    (tmp_path / "params.yaml").symlink_to(here / "workflow" / "schemas" / "params.default.yaml")
    return tmp_path


def test_matching_rules_are_compared_on_the_same_checkpoint(controlled):
    evidence = controlled()
    results = evidence.controls("seg", "tap_f")
    value = results.difference("matching_random_learned", "matching_key_learned", "miou")
    assert (value.mean, value.seeds) == (-4.0, (0, 1))
    assert value.sd == pytest.approx(np.sqrt(2))
    assert results.value("matching_random_0", "miou").mean == 30.0
    assert results.value("matching_token_0", "miou") is None
    assert results.share("oracle", "miou", 2).mean == pytest.approx(50.0)
    assert results.identity == "56 of 56"


def test_differences_of_controls_have_paired_intervals_from_their_images(controlled):
    """Against resampling by hand: images drawn with the seed of the task, the same ones for both controls."""
    evidence = controlled()
    results = evidence.controls("seg", "tap_f")
    generator = np.random.default_rng(0)
    for run in results.arrays:
        for control in ("full", "oracle"):
            areas = generator.integers(1, 50, (12, 3, 4))
            areas[:, 0] = np.minimum(areas[:, 0], areas[:, 1:].min(axis=1))
            results.arrays[run][f"{control}.areas"] = areas
            stated = point(*contributions("miou", {"areas": areas}))
            rows = (results.frame["run"] == run) & (results.frame["control"] == control)
            results.frame.loc[rows, "value"] = stated
    found = results.difference("oracle", "full", "miou")
    seed, drawn = derive_seed("bootstrap", "desk", "seg", "controls"), []
    for run in results.arrays:
        parts = [
            replicates(*contributions("miou", results.of_images(run, name)), seed=seed) for name in ("oracle", "full")
        ]
        drawn.append(parts[0] - parts[1])
    wanted = np.quantile((seed_weights(len(drawn), len(drawn[0]), "seg") * drawn).sum(axis=0), [0.025, 0.975])
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(wanted))
    assert found.interval.low < found.mean < found.interval.high
    assert results.difference("matching_random_learned", "full", "miou").interval is None
    results.frame.loc[results.frame["control"] == "full", "value"] += 1.0
    results._replicates.clear()
    with pytest.raises(UserError, match="full, miou: recorded"):
        results.difference("oracle", "full", "miou")


def test_a_selector_may_name_a_control_and_stands_beside_its_own_checkpoint(controlled):
    evidence = controlled()
    assert evidence.value("seg", "tap_f:oracle", "miou").mean == pytest.approx(41.5)
    assert evidence.difference("seg", "tap_f", "tap_f:oracle", "miou").mean == pytest.approx(-1.0)
    assert evidence.difference("seg", "tap_f:oracle", "tap", "miou") is None
    assert evidence.value("seg", "tap_f:never_run", "miou") is None
    assert evidence.lacking("seg", ("tap_f:oracle",), "miou") == []


def test_ablations_are_trained_variants_and_controls_side_by_side(controlled):
    text = render_table("tab_absolute_ablation", controlled())[".tex"].decode()
    assert "TAP-F full & -- & 40.5 & --" in text
    text = render_table("tab_ablation", controlled())[".csv"].decode()
    assert "desk,zero_fill,recovery off (zero-fill),cls" in text


def test_a_caption_says_whether_the_selected_sets_are_the_same(controlled):
    text = render_table("tab_matching_ablation", controlled())[".tex"].decode()
    assert "one hash, aaaaaaaaaaaa" in text
    text = render_table("tab_matching_ablation", controlled(digest="b" * 64))[".tex"].decode()
    assert "2 hashes, which must be one" in text


def test_a_caption_says_what_the_other_means_change_and_what_the_oracle_has_tried(controlled):
    text = render_table("tab_allocation_controls", controlled())[".tex"].decode()
    assert "as the paper takes them, which changes the score by +0.25 points (seg TAP-F)." in text
    assert "231 splits on 64 calibration images, 39 \\% of the blocks saved by sharing (seg TAP-F)." in text


def test_the_register_is_described_over_all_images_of_the_first_seed(controlled):
    results = controlled().controls("seg", "tap_f")
    shares, scales = SHARES[:, 0], SCALES[:, 2]
    assert results.register("shares", 0, np.mean).mean == pytest.approx(shares.mean())
    known = scales[~np.isnan(scales)]
    assert results.register("scales", 2, np.median).mean == np.median(known)
    text = render_table("tab_register_distributions", controlled())[".tex"].decode()
    low, high = np.quantile(100 * shares, (0.25, 0.75))
    wanted = f"30.0$\\pm${np.std(100 * shares):.2f} & 25.0 & {high - low:.1f} & 0.55$\\pm${np.std(SCALES[:, 0]):.2f}"
    assert wanted in text


def test_what_a_table_was_made_from_is_in_its_record(controlled):
    found = [path.name for path in files_read("tab_allocation_controls", controlled())]
    assert found.count("controls.csv") == found.count("controls.npz") == 2


def test_nothing_controlled_is_missing_and_another_file_is_refused(project_root, controlled):
    assert read_controls(load_scale("desk", root=project_root), "seg", "tap_f", project_root) is None
    evidence = controlled()
    path = project_root / Run("desk", "seg", "tap_f", 0.5).folder / "controls.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="is not a table of controls"):
        render_table("tab_matching_recovery", evidence)
