"""Figures of runs and of controls: which numbers they draw, with which intervals, and what they say of the runs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from tap.config.methods import DENSE
from tap.paper.evidence import Evidence
from tap.paper.figures import (
    fig_allocation_distributions,
    fig_recovery_distributions,
    fig_sandwich,
    fig_spatial_retention,
    fig_tradeoff,
)
from tap.paper.figures.build import build_figure, render_figure
from tap.paper.figures.names import figures_of
from tap.runs import Run

SHARES = np.array([[0.1, 0.3, 0.6], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.3, 0.3, 0.4]])
SCALES = np.array([[0.5, 0.6, 0.7], [0.7, 0.6, np.nan], [0.9, 0.6, 0.3], [0.1, 0.6, 0.5]])


@pytest.fixture
def of_runs(project) -> Evidence:
    """Classification at two rates, and segmentation with what its boundaries keep."""
    runs = [project.add_cls("dense", 0.9), project.add_cls("tap", 0.8), project.add_cls("tap", 0.7, rate=0.3)]
    generator = np.random.default_rng(0)
    for method, kept in (("random", 5), ("tap", 7)):
        boundary = np.stack([generator.binomial(10, kept / 10, 30), np.full(30, 10)], axis=1)
        share = 100.0 * boundary[:, 0].sum() / 300
        metrics = {"miou": 50.0, "boundary_retention": share, "register_fresh_correlation": 0.99}
        run = Run("desk", "seg", method, 0.5)
        runs.append(project.add(run, metrics, {"boundary": boundary, "sample_id": np.arange(30)}))
    project.profile("cls", {"tap": 1.3, "tap@0.30": 1.5})
    return project.evidence(runs)


@pytest.fixture
def of_controls(project) -> Evidence:
    run = Run("desk", "seg", "tap_f", 0.5)
    folder = project.root / run.folder
    folder.mkdir(parents=True)
    common = {"run": run.id, "seed": 0, "schedule": "", "passes": 4, "exact": 4, "digest": "a", "metric": "miou"}
    lines = [
        {**common, "control": name, "value": 40.0, "shares": json.dumps(shares)}
        for name, shares in (
            ("full", [0.3, 0.3, 0.4]),
            ("oracle", [0.5, 0.3, 0.2]),
            ("shared_allocation", [0.2, 0.3, 0.5]),
        )
    ]
    pd.DataFrame(lines).to_csv(folder / "controls.csv", index=False)
    np.savez(folder / "controls.npz", shares=SHARES, scales=SCALES)
    return project.evidence([])


def test_changes_stand_at_their_speeds_with_the_intervals_of_the_tables(of_runs):
    frame = fig_tradeoff.data(of_runs).set_index(["task", "series", "rate"])
    change = of_runs.difference("cls", "tap", DENSE, "top1")
    line = frame.loc["cls", "tap", 0.5]
    assert (line["value"], line["low"], line["high"]) == (change.mean, change.interval.low, change.interval.high)
    assert line["x"] == of_runs.speed("cls", "tap", "encoder_speedup").mean == 1.3
    assert set(frame.index) == {("cls", "tap", 0.5), ("cls", "tap", 0.3)}


def test_retention_has_intervals_and_paired_differences(of_runs):
    frame = fig_spatial_retention.data(of_runs).set_index("series")
    assert frame.loc["tap", "low"] < frame.loc["tap", "value"] < frame.loc["tap", "high"]
    gap = frame.loc["tap - random"]
    assert gap["value"] == pytest.approx(frame.loc["tap", "value"] - frame.loc["random", "value"])
    assert gap["low"] > 0
    caption = render_figure("fig_spatial_retention", of_runs)[".caption.md"].decode()
    assert "Register did not learn: seg/tap/r0.50/main/s0" in caption
    assert "random" not in caption.split("Register did not learn")[1]


def test_summaries_are_those_of_all_images(of_controls):
    shares = fig_allocation_distributions.data(of_controls).set_index(["series", "layer"])["value"]
    assert shares["mean", 3] == pytest.approx(100 * SHARES[:, 0].mean())
    assert shares["sd", 6] == pytest.approx(0.0)
    assert shares["median", 9] == pytest.approx(100 * np.median(SHARES[:, 2]))
    assert (shares["oracle", 3], shares["shared static", 3]) == (50.0, 20.0)
    scales = fig_recovery_distributions.data(of_controls).set_index(["series", "layer"])["value"]
    assert scales["upper quartile", 9] == pytest.approx(np.nanquantile(SCALES[:, 2], 0.75))
    both = fig_sandwich.data(of_controls)
    assert set(both["metric"]) == {"share", "scale"}
    assert "sd" not in set(both["series"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*figures_of("rates"), *figures_of("controls")])
def test_a_figure_without_results_says_so_and_equal_ones_are_equal_files(name, project, of_runs):
    """Half of the tasks have nothing here, and the figures of controls nothing at all."""
    first = build_figure(name, "desk", project.root / "first", project.root)
    second = build_figure(name, "desk", project.root / "second", project.root)
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.suffix
