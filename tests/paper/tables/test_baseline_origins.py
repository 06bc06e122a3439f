"""The origin of each baseline as data, and the two tables of it."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from tap.config.methods import COMMON_RECOVERY, METHODS, ORIGINS
from tap.paper.reported import load_reported
from tap.paper.tables.build import build_table

LABELS = {"tab:baseline-provenance": "path", "tab:dense-baseline-provenance": "readout"}


def test_every_published_method_has_an_origin():
    ours = {"dense", "random", "static", "tap", "tap_f"}
    assert set(ORIGINS) == {name for name in METHODS if name not in ours}
    for method, origin in ORIGINS.items():
        assert re.fullmatch(r"[\w-]+/[\w-]+", origin.repository), method
        assert re.fullmatch(r"[0-9a-f]{7}", origin.commit), method
        assert origin.licence or origin.source.endswith("no licence stated")
        assert bool(origin.path) == ("cls" in METHODS[method].tasks and method != "attn_topk"), method
        assert bool(origin.readout) == bool({"seg", "det"} & set(METHODS[method].tasks)), method
        if method in COMMON_RECOVERY:
            assert "common recovery" in origin.readout, method


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_the_tables(label, scale, tmp_path):
    files = build_table(label, scale, tmp_path)
    frame = pd.read_csv(next(file for file in files if file.suffix == ".csv" and ".compare" not in file.name))
    rows = [row.key for row in load_reported(label).rows]
    assert list(dict.fromkeys(frame["row"])) == rows
    texts = frame.set_index(["row", "column"])["text"]
    for row in rows:
        assert ORIGINS[row].commit in texts[row, "source"]
        assert texts[row, LABELS[label]].startswith(getattr(ORIGINS[row], LABELS[label]))
    tex = next(file for file in files if file.suffix == ".tex").read_text()
    assert r"\begin{tabular}{lp{0.27\linewidth}p{0.5\linewidth}}" in tex


def test_settings_in_use_are_told(tmp_path):
    """Of methods that the scale runs."""
    files = build_table("tab:baseline-provenance", "smoke", tmp_path)
    texts = pd.read_csv(files[1]).set_index(["row", "column"])["text"]
    assert "ratio_weight=2.0" in texts["dynamicvit", "path"]
    assert "the most frequent class" not in texts["cropr", "path"]
