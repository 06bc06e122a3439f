import numpy as np
import pandas as pd
import pytest

from tap.paper.reported import load_reported
from tap.paper.tables.build import load_table
from tap.paper.tables.compare import COLUMNS, compare, contradictions, rank_correlation, verdicts
from tap.paper.tables.report import to_markdown
from tap.paper.tables.table import Filled, fill

NAMES = {row.key: row.label for row in load_reported("tab:cls").rows}


@pytest.fixture
def cls_runs(project) -> list:
    """Three seeds of four methods; the order contradicts the paper in one place: Random above TAP-J."""
    accuracies = {"dense": 0.9, "random": 0.88, "attn_topk": 0.84, "tap": 0.80}
    return [project.add_cls(method, value, seed) for method, value in accuracies.items() for seed in (0, 1, 2)]


def filled_by(project, runs) -> Filled:
    return fill(load_table("tab_cls"), project.evidence(runs))


@pytest.fixture
def filled(project, cls_runs) -> Filled:
    return filled_by(project, cls_runs)


@pytest.fixture
def frame(filled) -> pd.DataFrame:
    return compare(filled)


def line(frame: pd.DataFrame, kind: str, row: str, other: str = "", metric: str = "top1") -> pd.Series:
    found = frame[
        (frame["kind"] == kind) & (frame["row"] == row) & (frame["other"] == other) & (frame["metric"] == metric)
    ]
    assert len(found) == 1
    return found.iloc[0]


def test_measured_and_reported_stand_side_by_side(frame) -> None:
    assert list(frame.columns) == list(COLUMNS)
    found = line(frame, "value", "random")
    assert (found["measured"], found["reported"]) == (pytest.approx(88.0), 82.0)
    assert (found["measured_difference"], found["reported_difference"]) == (pytest.approx(-2.0), -1.6)
    assert found["same_sign"]
    assert found["verdict"] == "agrees"
    assert line(frame, "value", "tap", metric="size")[["measured", "reported"]].tolist() == [290.0, 2300.0]
    assert line(frame, "value", "evit")["verdict"] == "not measured"
    assert line(frame, "value", "evit")["reported"] == 83.1
    assert pd.isna(line(frame, "value", "evit")["measured"])


def test_a_reversed_order_is_a_contradiction(frame) -> None:
    """The paper has TAP-J 1.2 above Random; here it is 8 below."""
    found = line(frame, "order", "random", "tap")
    assert found["reported_difference"] == pytest.approx(-1.2)
    assert found["measured_difference"] == pytest.approx(8.0)
    assert found["verdict"] == "contradicts"
    sentences = contradictions(frame, NAMES)
    expected = (
        "the paper puts TAP-J (ours) above Random (by 1.2); here the order is reversed (Random minus TAP-J (ours): +8"
    )
    assert any(expected in sentence for sentence in sentences)
    assert len(sentences) == verdicts(frame)["contradicts"] == 3


def test_an_interval_with_zero_settles_nothing(project) -> None:
    runs = [project.add_cls(method, value) for method, value in (("dense", 0.9), ("random", 0.8025), ("tap", 0.8))]
    frame = compare(filled_by(project, runs))
    found = line(frame, "order", "random", "tap")
    assert found["low"] <= 0 <= found["high"]
    assert found["verdict"] == "unresolved"
    assert not found["same_sign"]


def test_a_difference_without_images_is_unresolved(project) -> None:
    runs = [project.add_cls(method, value) for method, value in (("dense", 0.9), ("tap", 0.5))]
    for run in runs:
        (project.root / run.folder / "per_sample.npz").unlink()
    frame = compare(filled_by(project, runs))
    assert line(frame, "value", "tap")["verdict"] == "unresolved"


def test_a_change_of_the_wrong_sign_is_a_contradiction(project) -> None:
    runs = [project.add_cls(method, value) for method, value in (("dense", 0.7), ("tap", 0.9))]
    assert line(compare(filled_by(project, runs)), "value", "tap")["verdict"] == "unresolved", "one seed is too few"
    runs += [
        project.add_cls(method, value, seed) for method, value in (("dense", 0.7), ("tap", 0.9)) for seed in (1, 2)
    ]
    frame = compare(filled_by(project, runs))
    assert line(frame, "value", "tap")["verdict"] == "contradicts"
    assert contradictions(frame, NAMES)[0].startswith(
        "top1: the paper has TAP-J (ours) at -0.4 from no pruning; here it is +20"
    )


def test_ties_in_the_paper_get_no_verdict(project) -> None:
    """ToMe and TAP-J are both printed as 83.2."""
    runs = [project.add_cls(method, value) for method, value in (("dense", 0.9), ("tome", 0.85), ("tap", 0.5))]
    frame = compare(filled_by(project, runs))
    assert line(frame, "order", "tome", "tap")["verdict"] == ""


def test_rank_correlation(frame, filled) -> None:
    """Paper: Random 82.0 < Attn Top-K 83.0 < TAP-J 83.2; here exactly reversed."""
    common, correlation = rank_correlation(frame, "top1", filled)
    assert common == 3
    assert correlation is not None
    assert correlation.estimate == pytest.approx(-1.0)
    assert correlation.low <= -1.0 + 1e-9
    assert np.isnan(rank_correlation(frame, "top1")[1].low)  # type: ignore[union-attr]


def test_rank_correlation_needs_three_rows(project) -> None:
    runs = [project.add_cls(method, 0.8) for method in ("dense", "random", "tap")]
    filled = filled_by(project, runs)
    assert rank_correlation(compare(filled), "top1", filled) == (2, None)


def test_no_run_gives_no_verdict(project) -> None:
    frame = compare(filled_by(project, []))
    assert set(verdicts(frame).values()) == {0}
    assert frame["measured"].isna().all()


def test_report_says_it_in_words(frame, filled) -> None:
    text = to_markdown(filled, frame)
    assert "# tab:cls: scale desk beside the paper" in text
    assert "| Random | 88.00 (88.00, 88.00, 88.00) | 82.0 | -2.00 [" in text
    assert "(-2.00, -2.00, -2.00)" in text
    assert "Rank correlation (Spearman) with the paper over 3 common rows: -1.00" in text
    assert "Pairs of methods: 0 agree with the paper, 3 contradict it, 0 are not resolved" in text
    assert "- top1: the paper puts TAP-J (ours) above Random" in text
    assert "| TAP-J (ours) | 290 / +2.3K | -- / 2300 | -- / 1.26 |" in text
    assert "| EViT | -- / +0 | -- / 2277 | -- / 1.24 |" in text
