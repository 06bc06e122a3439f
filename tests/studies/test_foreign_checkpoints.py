"""A checkpoint of another task in a run's folder: every job that reads one says whose it is, and writes nothing."""

import json

import pytest
from tasks.conftest import ade_root, seg_spec  # noqa: F401  fixtures

from tap.config import load_scale
from tap.engine.published import published_weights
from tap.errors import UserError
from tap.plan.runs import probed_runs, run_of
from tap.plan.teaching import dense_spec
from tap.provenance.files import sha256_file
from tap.runs import Run
from tap.studies.controls import run_controls
from tap.studies.endpoint import run_endpoint
from tap.studies.evaluation import evaluate_run
from tap.studies.kept_patches import kept_patches
from tap.studies.picture import run_picture
from tap.studies.probes import run_layer_probe
from tap.tasks.registry import get_task

DET = "smoke/det/tap/r0.50/main/s0"


def put(run, trained=DET):
    """Files of a training of another run."""
    run.folder.mkdir(parents=True)
    files = [run.folder / name for name in ("model.safetensors", "log.csv")]
    for file in files:
        file.write_bytes(b"not read")
    outputs = {file.as_posix(): {"sha256": sha256_file(file)} for file in files}
    (run.folder / "run.json").write_text(json.dumps({"run": trained, "outputs": outputs}))


@pytest.fixture
def cases(cls_spec, seg_spec, tmp_path, monkeypatch):  # noqa: F811
    """By name of a job: the run that it reads, and the call."""
    cls, cfg = cls_spec().model_copy(update={"method": "tap", "rate": 0.5}), load_scale("smoke")
    monkeypatch.chdir(tmp_path)
    seg = seg_spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8})
    seg = seg.model_copy(update={"method": "random", "rate": 0.5})
    controlled, probed = Run("smoke", "cls", "tap", 0.5), probed_runs(cfg, "cls", "layers")[0]
    return {
        "evaluate": (run_of(cls), lambda: evaluate_run(cls, get_task(cls))),
        "kept": (run_of(cls), lambda: kept_patches([cls])),
        "picture": (run_of(seg), lambda: run_picture(seg)),
        "endpoint": (run_of(dense_spec(seg)), lambda: run_endpoint([seg])),
        "control": (controlled, lambda: run_controls(cfg, controlled)),
        "probe": (probed, lambda: run_layer_probe(cfg, "cls")),
    }


@pytest.mark.parametrize("job", ["evaluate", "kept", "picture", "endpoint", "control", "probe"])
def test_it_is_named_with_the_run_that_it_is_of(job, cases, tmp_path):
    run, call = cases[job]
    put(run)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError) as raised:
        call()
    assert f"{run.folder}/model.safetensors: is the checkpoint of {DET}, as its record says" in str(raised.value)
    assert f"not of smoke/{run.id}; put each run's files into its own folder" in str(raised.value)
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path not in before]
    assert left == []


def test_its_own_is_read(cases, tmp_path):
    run, _ = cases["control"]
    put(run, f"smoke/{run.id}")
    assert published_weights(run) == run.folder / "model.safetensors"
