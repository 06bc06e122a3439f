"""Values and ranges that the command line writes into params.yaml."""

import shutil
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.config.assign import assign, read_value
from tap.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "workflow").mkdir()
    shutil.copytree(ROOT / "workflow" / "scales", tmp_path / "workflow" / "scales")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0..4", [0, 1, 2, 3, 4]),
        ("0.3..0.9:0.2", [0.3, 0.5, 0.7, 0.9]),
        ("1..6:2", [1, 3, 5]),
        ("[0.3, 0.5]", [0.3, 0.5]),
        ("25_epochs", "25_epochs"),
        ("null", None),
    ],
)
def test_values_and_ranges(text, value):
    assert read_value(text) == value


@pytest.mark.parametrize("text", ["4..0", "0..4:0", "0.3..0.9"])
def test_a_range_that_is_none_is_refused(text):
    with pytest.raises(UserError, match=r"a range rises to its last value by a step above 0"):
        read_value(text)


def test_what_is_set_is_in_use_and_all_else_stays_as_it_was(project):
    before = (project / "params.yaml").read_text()
    found = assign(["keep_rates=0.3..0.9:0.2", "tasks.*.seeds=0..1"], "smoke", project)
    assert found["tasks.det.seeds"] == [0, 1]
    cfg = load_scale("smoke", root=project)
    assert cfg.keep_rates == (0.3, 0.5, 0.7, 0.9)
    assert {task.seeds for task in cfg.tasks.values()} == {(0, 1)}
    after = (project / "params.yaml").read_text()
    assert "    keep_rates: [0.3, 0.5, 0.7, 0.9]\n" in after
    assert set(before.splitlines()) - set(after.splitlines()) == {"  smoke: {}"}
    assign(["keep_rates=[0.5]"], "smoke", project)
    assert load_scale("smoke", root=project).keep_rates == (0.5,)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("keep_rate=0.5", r"keep_rate: unknown key"),
        ("tasks.cls.seeds=x", r"tasks\.cls\.seeds"),
        ("keep_rates", r"'keep_rates': give NAME=VALUE"),
    ],
)
def test_a_wrong_one_leaves_the_file_as_it_is(project, text, match):
    before = (project / "params.yaml").read_text()
    with pytest.raises(UserError, match=match):
        assign(["main_rate=0.5", text], "smoke", project)
    assert (project / "params.yaml").read_text() == before


def test_a_value_that_stands_elsewhere_too_is_said(project):
    path = project / "params.yaml"
    path.write_text(path.read_text().replace("  smoke: {}", "  smoke: {tasks.cls.eval.batch_size: 2, tasks: {}}"))
    assign(["tasks.cls.eval.batch_size=3"], "smoke", project)
    assert load_scale("smoke", root=project).tasks["cls"].eval.batch_size == 3


def test_a_task_can_be_trained_for_one_of_its_other_lengths():
    paper = load_scale("paper").tasks["det"]
    assert (paper.method.length, paper.method.schedule.milestones) == (184375, (162250, 177000))
    for name, share in (("25_epochs", 4), ("12_epochs", 100 / 12)):
        det = load_scale("paper", {"tasks.det.trained_for": name}).tasks["det"]
        for train in (det.dense, det.method):
            assert train.length == pytest.approx(paper.method.length / share, abs=1)
            drops = [drop / train.length for drop in train.schedule.milestones]
            assert drops == pytest.approx([0.88, 0.96], abs=1e-4)
            assert train.schedule.warmup == 250
    with pytest.raises(UserError, match=r"tasks\.det: trained_for: '3_epochs' is not one of lengths: 25_epochs, 12_e"):
        load_scale("paper", {"tasks.det.trained_for": "3_epochs"})
