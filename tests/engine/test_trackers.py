"""Weights & Biases and MLflow, by modules that stand in for them: neither is installed, and nothing goes online."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from tap.engine.reporting import Display
from tap.engine.trackers import open_tracker
from tap.errors import UserError
from tap.provenance.locks import is_held

ROWS = [{"step": 2.0, "lr": 0.1, "loss": 0.5}, {"step": 4.0, "lr": 0.1, "loss": 0.25}]
POINTS = [({"train/lr": 0.1, "train/loss": 0.5}, 2), ({"train/lr": 0.1, "train/loss": 0.25}, 4)]


@pytest.fixture
def wandb(monkeypatch):
    """What the package was told."""
    module, told = ModuleType("wandb"), SimpleNamespace(started=[], points=[], ended=[])

    def init(**options):
        told.started.append(options)
        return SimpleNamespace(
            log=lambda values, step: told.points.append((values, step)),
            finish=lambda exit_code: told.ended.append(exit_code),
        )

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setenv("TAP_TRACKER", "wandb")
    return told


@pytest.fixture
def mlflow(monkeypatch):
    """What the package was told."""
    module, told = ModuleType("mlflow"), SimpleNamespace(experiments=[], started=[], points=[], ended=[])
    module.set_experiment = told.experiments.append
    module.start_run = lambda **options: (
        told.started.append(options) or SimpleNamespace(info=SimpleNamespace(run_id="7"))
    )
    module.log_metrics = lambda values, step: told.points.append((values, step))
    module.end_run = told.ended.append
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setenv("TAP_TRACKER", "mlflow")
    return told


def train(folder, quiet=False):
    with Display("cls/tap", total=4, done=0, images_per_step=8, events=folder, quiet=quiet) as display:
        for row in ROWS:
            display.row(row)


def test_a_run_of_wandb_goes_on_after_a_kill(wandb, monkeypatch, tmp_path):
    train(tmp_path)
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    train(tmp_path)
    train(tmp_path / "another")
    first, second, other = wandb.started
    assert (first["name"], first["project"], second["project"]) == ("cls/tap", "tap", "mine")
    assert first["resume"] == "allow"
    assert first["id"] == second["id"] != other["id"]
    assert wandb.points == POINTS * 3
    assert wandb.ended == [0, 0, 0]


def test_a_run_of_mlflow_goes_on_after_a_kill(mlflow, monkeypatch, tmp_path):
    train(tmp_path)
    train(tmp_path)
    assert mlflow.experiments == ["tap", "tap"]
    assert mlflow.started == [{"run_name": "cls/tap"}, {"run_id": "7"}]
    assert mlflow.points == POINTS * 2
    assert mlflow.ended == ["FINISHED"] * 2


def test_a_training_that_fails_ends_its_run_as_failed(wandb, tmp_path):
    with pytest.raises(UserError), Display("cls/tap", 4, 0, 8, events=tmp_path):
        raise UserError("loss is not finite")
    assert wandb.ended == [1]


def test_a_tracker_that_fails_is_said_once_and_stops_nothing(mlflow, capsys, tmp_path):
    def offline(values, step):
        raise ConnectionError("no server")

    sys.modules["mlflow"].log_metrics = offline
    train(tmp_path)
    assert capsys.readouterr().err.count("cls/tap: no longer tracked: ConnectionError: no server") == 1


def test_a_tracker_that_cannot_begin_is_said_before_anything_is_trained(wandb, tmp_path):
    def nobody(**options):
        raise RuntimeError("No API key configured. Use `wandb login` to log in.")

    sys.modules["wandb"].init = nobody
    with pytest.raises(UserError, match=r"TAP_TRACKER=wandb: RuntimeError: No API key .*; mend it, or unset"):
        open_tracker("cls/tap", tmp_path)


def test_trainings_begin_one_at_a_time(mlflow, monkeypatch, tmp_path):
    """MLflow makes its data base at the first start, and two that make it together break it."""
    monkeypatch.chdir(tmp_path)
    inside = []
    sys.modules["mlflow"].set_experiment = lambda name: inside.append(is_held(".tap/tracker.lock"))
    open_tracker("cls/tap", tmp_path)
    assert inside == [True]
    assert not is_held(".tap/tracker.lock")


def test_only_who_asks_is_tracked(monkeypatch, tmp_path):
    monkeypatch.delenv("TAP_TRACKER", raising=False)
    assert open_tracker("cls/tap", tmp_path) is None
    monkeypatch.setenv("TAP_TRACKER", "comet")
    with pytest.raises(UserError, match="TAP_TRACKER=comet: not known; choose from wandb, mlflow, or unset it"):
        open_tracker("cls/tap", tmp_path)
    monkeypatch.setenv("TAP_TRACKER", "mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UserError, match="TAP_TRACKER=mlflow: the package mlflow is not installed here"):
        open_tracker("cls/tap", tmp_path)
