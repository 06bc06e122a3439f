import json

import pytest

from tap.engine.checkpoint import save_weights
from tap.engine.job import train_run
from tap.errors import UserError
from tap.plan.runs import run_of
from tap.provenance.record import Stamp
from tap.studies.endpoint import run_endpoint
from tap.tasks.recovery_endpoint import recovery_settings
from tap.tasks.registry import get_task


@pytest.fixture
def specs(seg_spec, tmp_path, monkeypatch):
    """Two selectors and TAP, with the endpoint to be chosen."""
    spec = seg_spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8})
    recovery = spec.recovery.model_copy(update={"endpoint": "auto"})
    monkeypatch.chdir(tmp_path)
    common = {"rate": 0.5, "recovery": recovery, "start_from": "dense", "static_split": (1.0, 1.0, 1.0)}
    return [spec.model_copy(update=common | {"method": method}) for method in ("random", "static", "tap")]


def test_the_endpoint_is_chosen_once_for_all_selectors(specs, monkeypatch):
    with pytest.raises(UserError, match=r"dense/r1\.00/main/s0 is not trained yet"):
        run_endpoint(specs)
    task = get_task(specs[0])
    dense = specs[0].model_copy(update={"method": "dense", "rate": 1.0})
    weights = save_weights(run_of(dense).folder / "model.safetensors", task.build_model(dense).state_dict(), {})
    monkeypatch.setattr("tap.studies.endpoint.published_weights", lambda run: weights)
    path = run_endpoint(specs, Stamp("endpoint"))
    chosen = json.loads(path.read_text())
    scores = chosen["calibration_score"]
    assert chosen["endpoint"] == (1.0 if scores["1"] >= scores["0"] else 0.0)
    assert chosen["runs"] == ["seg/random/r0.50/main/s0", "seg/static/r0.50/main/s0"]
    record = json.loads(path.with_suffix(".record.json").read_text())
    assert (record["job"], list(record["outputs"])) == ("endpoint", [path.as_posix()])
    assert list(record["inputs"]) == [weights.as_posix()]
    assert [recovery_settings(spec).scale for spec in specs] == [chosen["endpoint"], chosen["endpoint"], "learned"]


def test_a_training_stops_before_work_without_the_endpoint(specs):
    spec = specs[0].model_copy(update={"start_from": "scratch"})
    with pytest.raises(UserError, match="run `tap endpoint seg`"):
        train_run(spec, get_task(spec))
    assert not run_of(spec).folder.exists()


def test_nothing_to_choose_is_said(specs):
    with pytest.raises(UserError, match="no method of this task uses the common recovery"):
        run_endpoint(specs[2:])
