import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tap.config.methods import CRITERIA, SCORES
from tap.criteria.registry import CRITERIA as REGISTRY
from tap.errors import UserError
from tap.paper.estimate import Estimate
from tap.paper.probe_results import correlation, read_probe
from tap.paper.reported import load_reported
from tap.paper.tidy_probes import SCHEMA, gather_probes, read_tidy_probes, write_tidy_probes
from tap.plan.results import tidy_path
from tap.provenance.record import Stamp, read_record

DROPS = {("coverage", block, alpha): 2.0 + alpha for block in (3, 6) for alpha in (0.0, 1.0)}


def test_one_row_per_probe_and_metric_and_the_csv_gives_it_back(results) -> None:
    results.probe("seg", "layers", {("random", 3, 1.0): 4.0}, seeds=(0,))
    results.probe("seg", "recovery", DROPS, seeds=(0, 1))
    path = write_tidy_probes("desk", "seg", results.root, Stamp("gather_probes"))
    assert path == results.root / tidy_path("desk", "probes_seg")
    frame = read_tidy_probes(path)
    assert list(frame.columns) == list(SCHEMA.columns)
    pd.testing.assert_frame_equal(frame, gather_probes("desk", "seg", results.root))
    assert frame.groupby("probe").size().to_dict() == {"layers": 2, "recovery": 2 * 5}
    assert frame["endpoint"].isna().sum() == 3, "no pruning has none"
    row = frame[(frame["layer"] == 6) & (frame["endpoint"] == 1) & (frame["seed"] == 1)]
    assert row["value"].item() == pytest.approx((80 - 3 - 1) / 2, abs=0.2)
    assert (results.root / row["per_sample"].item()).is_file()
    record = read_record(path.with_suffix(".record.json"))
    assert record["job"] == "gather_probes"
    assert "results/desk/probes/seg/recovery/values.csv" in record["inputs"]


def test_a_probe_that_is_not_made_is_absent(results) -> None:
    assert gather_probes("desk", "cls", results.root).empty
    assert read_probe("desk", "cls", "layers", results.root) is None
    results.probe("cls", "layers", {("random", 1, None): 4.0})
    assert read_probe("desk", "cls", "layers", results.root).layers == [1]
    assert read_probe("desk", "cls", "recovery", results.root) is None


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("value", 180.0, "top1 = 180.0"),
        ("layer", -1, "greater_than"),
        ("endpoint", 3.0, "in_range"),
        ("criterion", "dense", "unique|uplicate"),
        ("seed", "one", "not a tidy table"),
    ],
)
def test_an_edited_table_is_refused(results, column: str, value, message: str) -> None:
    results.probe("cls", "layers", {("random", 1, None): 4.0, ("coverage", 1, None): 2.0})
    path = results.root / tidy_path("desk", "probes_cls")
    frame = pd.read_csv(path).astype(object)
    frame.loc[1:, [column] if column != "criterion" else ["criterion", "layer"]] = value if column != "criterion" else 0
    frame.to_csv(path, index=False)
    with pytest.raises(UserError, match=rf"(?s)tidy_probes_cls.csv.*({message})"):
        read_tidy_probes(path)


@pytest.mark.parametrize("name", ["values.csv", "probe.json"])
@pytest.mark.parametrize("content", ["", "{}", "a,b\n1,2\n"])
def test_broken_files_are_refused_by_name(results, name: str, content: str) -> None:
    results.probe("cls", "layers", {("random", 1, None): 4.0})
    (results.root / "results/desk/probes/cls/layers" / name).write_text(content)
    with pytest.raises(UserError, match="probes/cls"):
        gather_probes("desk", "cls", results.root)


def test_damaged_values_of_single_images_are_refused(results) -> None:
    results.probe("cls", "layers", {("random", 1, None): 4.0})
    (results.root / "results/desk/probes/cls/layers/per_sample.npz").write_bytes(b"PK")
    probe = read_probe("desk", "cls", "layers", results.root)
    with pytest.raises(UserError, match=r"per_sample.npz: cannot be read"):
        probe.drop("random", "top1", [1])


def test_values_of_single_images_that_the_table_names_are_there_or_missed(results) -> None:
    results.probe("cls", "layers", {("random", 1, None): 4.0})
    (results.root / "results/desk/probes/cls/layers/per_sample.npz").unlink()
    probe = read_probe("desk", "cls", "layers", results.root)
    with pytest.raises(UserError, match=r"per_sample.npz: is not there, and .*tidy_probes_cls.csv names it; take"):
        probe.drop("random", "top1", [1])


def test_names_of_criteria_are_those_of_the_registry_and_of_the_printed_tables() -> None:
    assert tuple(REGISTRY) == CRITERIA
    for label in ("tab:criteria", "tab:criterion-summary"):
        rows = load_reported(label).rows
        assert tuple(row.key for row in rows) == CRITERIA
    assert set(SCORES) == {"cls", "seg", "det"}


def test_correlation_resamples_both_sides() -> None:
    generator = np.random.default_rng(0)
    first, second = (
        [Estimate(np.array([sign * k]), (sign * k + generator.normal(0, 0.1, 50))[None], 9) for k in range(6)]
        for sign in (1.0, -1.0)
    )
    value, bounds = correlation(first, second)
    assert value == -1
    assert (bounds.low, bounds.high) == (-1, -1)
    value, bounds = correlation(first, [Estimate(item.by_seed, None) for item in second])
    assert (value, bounds) == (-1, None)
    assert np.isnan(correlation(first, [Estimate(np.ones(1), np.ones((1, 50)), 9)] * 6)[0])
    for few in ([], first[:1]):
        value, bounds = correlation(few, few)
        assert np.isnan(value)
        assert bounds is None


def test_a_record_without_facts_is_refused(results) -> None:
    results.probe("cls", "layers", {("random", 1, None): 4.0})
    record = Path(results.root / "results/desk/probes/cls/layers/probe.json")
    record.write_text(json.dumps({"device": "a machine"}))
    with pytest.raises(UserError, match=r"fingerprint|dataset"):
        gather_probes("desk", "cls", results.root)


def test_a_value_that_its_per_image_values_do_not_give_is_refused(results) -> None:
    results.probe("cls", "layers", {("random", 1, None): 4.0}, seeds=(0,))
    path = results.root / "results/desk/probes/cls/layers/values.csv"
    values = pd.read_csv(path)
    values.loc[1, "value"] = 79.0
    values.to_csv(path, index=False)
    message = r"layers/values\.csv: random at block 1, seed 0, top1: recorded 79\.0, recomputed 76\.0 from per_sample"
    with pytest.raises(UserError, match=message):
        gather_probes("desk", "cls", results.root)
    frame = gather_probes("desk", "cls", results.root, compare=False)
    assert frame["value"].tolist() == [80.0, 79.0]
    frame.to_csv(results.root / tidy_path("desk", "probes_cls"), index=False)
    with pytest.raises(UserError, match=r"probes/cls/layers: top1 of probe 1: recorded 79\.0, recomputed 76\.0"):
        read_probe("desk", "cls", "layers", results.root).drop("random", "top1", [1])
    read_probe("desk", "cls", "layers", results.root, compare=False).drop("random", "top1", [1])


def test_lines_of_other_images_and_probes_are_refused(results) -> None:
    results.probe("cls", "layers", {("random", 1, None): 4.0})
    path = results.root / "results/desk/probes/cls/layers/values.csv"
    for column, value, message in (
        ("images", 299, "images: recorded 299, recomputed 300"),
        ("position", 7, "number 7"),
    ):
        values = pd.read_csv(path)
        values.loc[1, column] = value
        before = path.read_bytes()
        values.to_csv(path, index=False)
        with pytest.raises(UserError, match=message):
            gather_probes("desk", "cls", results.root)
        path.write_bytes(before)
