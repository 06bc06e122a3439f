"""The growth of time and memory as a figure."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tap.errors import UserError
from tap.paper.figures.build import build_figure


def grown(axis: str, patches: int, batch: int, rate: float, **other) -> dict:
    numbers = {"ms": 3.0, "dense_ms": 4.0, "peak_mib": 5.0, "dense_peak_mib": 8.0, "matching_percent": 1.0}
    return {"axis": axis, "patches": patches, "batch": batch, "rate": rate, **(other or numbers)}


@pytest.mark.slow
def test_every_point_is_drawn_once_for_each_side_and_quantity(results, settings: Path) -> None:
    points = [grown("patches", count, 1, 0.5) for count in (196, 784)]
    points += [grown("batch", 196, batch, 0.5) for batch in (1, 8)]
    points += [grown("batch", 196, 256, 0.5, out_of_memory=True), grown("keep rate", 784, 1, 0.1)]
    results.profile("growth", {}, points=points)
    files = build_figure("fig_growth", "desk", settings / "out", settings)
    frame = pd.read_csv(next(file for file in files if file.suffix == ".csv"))
    assert len(frame) == 4 * 5
    assert not frame.duplicated(["axis", "quantity", "series", "x"]).any()
    assert set(frame["runs"]) == {"profiles/gpu-some-card/paper/growth"}
    record = json.loads((settings / "out/fig_growth.record.json").read_text())
    assert list(record["inputs"]) == ["results/profiles/gpu-some-card/paper/growth.json"]


def test_without_a_profile_there_is_nothing_to_draw(settings: Path) -> None:
    with pytest.raises(UserError, match="fig_growth': nothing of it is measured"):
        build_figure("fig_growth", "desk", settings / "out", settings)
