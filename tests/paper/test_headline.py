"""The few numbers that stand for a scale."""

import json

import pytest

from tap.paper.headline import headline, write_headline
from tap.paper.tidy import gather
from tap.plan.results import tidy_path


def test_means_over_seeds_of_every_method_and_rate(project, cls_runs):
    extra = project.add_cls("tap", 0.7, 0, rate=0.3)
    project.profile("cls", {"tap": 1.31, "tap@0.30": 1.5}, shapes="desk")
    profile = project.evidence([]).profile("cls", "desk")
    lines = headline(gather([*cls_runs, extra], project.root), profile)
    assert lines[["method", "rate", "seeds"]].values.tolist() == [
        ["attn_topk", 0.5, 2],
        ["dense", 1.0, 2],
        ["random", 0.5, 2],
        ["tap", 0.3, 1],
        ["tap", 0.5, 2],
    ]
    tap = lines[(lines["method"] == "tap") & (lines["rate"] == 0.5)].iloc[0]
    assert (tap["score"], tap["encoder_speedup"], tap["final_tokens_mean"]) == (pytest.approx(80.0), 1.31, 32.0)


def test_both_files_say_the_same_and_have_a_record(project, cls_runs):
    project.profile("cls", {"tap": 1.31}, shapes="desk")
    project.evidence([])
    frame = gather(cls_runs, project.root)
    path = project.root / tidy_path("desk", "cls")
    frame.to_csv(path, index=False)
    as_json, as_csv = write_headline("desk", ["cls"], root=project.root)
    tree = json.loads(as_json.read_text())
    assert tree["cls"]["dense"]["r1.00"] == {"encoder_speedup": 1.0, "final_tokens_mean": 64.0, "score": 90.0}
    assert len(as_csv.read_text().splitlines()) == 1 + 4
    record = json.loads((as_json.parent / "headline.record.json").read_text())
    assert sorted(record["outputs"]) == ["results/desk/headline.csv", "results/desk/headline.json"]


def test_a_method_without_a_speed_has_no_speed(project):
    project.evidence([project.add_cls("tap", 0.5)])
    as_json, _ = write_headline("desk", ["cls"], root=project.root)
    assert json.loads(as_json.read_text())["cls"]["tap"]["r0.50"] == {"final_tokens_mean": 32.0, "score": 50.0}
