"""What a training does for a method beyond the task loss: a teacher, phases, a calibrated threshold, loss terms."""

from __future__ import annotations

import csv
import json

import pytest
import torch
from safetensors.torch import load_file
from toy_task import SmallClassification, toy_spec

from tap.config.model import ModelConfig
from tap.config.options import MethodOptions
from tap.config.options.dynamicvit import DynamicVitOptions
from tap.config.options.svit import SvitOptions
from tap.engine.calibration import calibrate
from tap.engine.job import train_run
from tap.errors import UserError
from tap.plan.runs import run_of

SIZES = ModelConfig(image_size=8, patch_size=2, channels=1, width=12, depth=2, heads=2)


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spec_of(method: str, options: MethodOptions | None = None, **changes: object):
    return toy_spec(method, **changes).model_copy(update={"options": options, "model": SIZES})


def rows(spec):
    with open(run_of(spec).folder / "log.csv") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def first_training(project):
    """What methods go on from: no pruning of their seed, trained for less long than the teacher."""
    spec = spec_of("dense", variant="start", length=6)
    train_run(spec, SmallClassification())
    return spec


@pytest.mark.parametrize("start", ["dense", "scratch"])
def test_dynamicvit_learns_from_the_dense_checkpoint_of_its_seed(start, first_training):
    """Wherever it starts from; the teacher's file is an input, and no part of what is published."""
    options = MethodOptions(dynamicvit=DynamicVitOptions(frozen=0.5, backbone_lr=0.1))
    spec, dense, task = spec_of("dynamicvit", options, start_from=start), spec_of("dense"), SmallClassification()
    with pytest.raises(UserError, match=r"cls/dense/r1\.00/main/s0/model\.safetensors: run .* is not trained yet"):
        train_run(spec, task)
    train_run(dense, task)
    train_run(spec, task)
    record = json.loads((run_of(spec).folder / "run.json").read_text())
    assert f"{run_of(dense).folder}/model.safetensors" in record["inputs"]
    weights = load_file(run_of(spec).folder / "model.safetensors")
    assert set(weights) == set(task.build_model(spec).state_dict())
    terms = {"task_loss", "ratio", "teacher_logits", "teacher_tokens"}
    for row in rows(spec):
        assert float(row["loss"]) == pytest.approx(sum(float(row[name]) for name in terms), rel=1e-4)


def test_a_frozen_part_does_not_change(first_training):
    """One step in the phase in which only the predictors learn."""
    options = MethodOptions(dynamicvit=DynamicVitOptions(frozen=0.5))
    dense, task = spec_of("dense"), SmallClassification()
    train_run(dense, task)
    spec = spec_of("dynamicvit", options, start_from="dense", length=1, warmup=0)
    train_run(spec, task)
    start, end = (load_file(run_of(one).folder / "model.safetensors") for one in (first_training, spec))
    assert all(torch.equal(start[name], end[name]) for name in start)
    fresh = task.build_model(spec).state_dict()
    assert any(not torch.equal(fresh[name], end[name]) for name in end if name.startswith("encoder.reducer."))


def test_the_published_weights_hold_the_calibrated_threshold():
    options = MethodOptions(svit=SvitOptions(layers=(1, 2)))
    spec, task = spec_of("svit", options), SmallClassification()
    train_run(spec, task)
    record = json.loads((run_of(spec).folder / "run.json").read_text())
    weights = load_file(run_of(spec).folder / "model.safetensors")
    threshold = float(weights["encoder.reducer.threshold"])
    assert threshold != 0.5
    assert record["calibrated_threshold"] == pytest.approx(threshold)
    assert record["calibration_images"] == 6
    model = task.build_model(spec)
    model.load_state_dict(weights)
    again = calibrate(spec, task, model, torch.device("cpu"))
    assert again["calibrated_threshold"] == pytest.approx(threshold)
    assert again["calibrated_mean_count"] == record["calibrated_mean_count"]


@pytest.mark.slow
def test_a_training_with_a_method_s_terms_resumes_to_the_same_weights(first_training):
    """Interrupted half way, with phases, Gumbel draws and a teacher."""
    options = MethodOptions(dynamicvit=DynamicVitOptions(frozen=0.5))
    dense, task = spec_of("dense"), SmallClassification()
    train_run(dense, task)
    spec = spec_of("dynamicvit", options, start_from="dense")
    train_run(spec, task)
    whole = (run_of(spec).folder / "model.safetensors").read_bytes()
    for path in [*run_of(spec).folder.iterdir(), *run_of(spec).scratch.glob("finished")]:
        path.unlink()

    class Dying(SmallClassification):
        def loss(self, model, batch, progress):
            if progress > 0.6:
                raise KeyboardInterrupt
            return super().loss(model, batch, progress)

    with pytest.raises(KeyboardInterrupt):
        train_run(spec, Dying())
    assert list(run_of(spec).scratch.glob("*.state"))
    train_run(spec, task)
    assert (run_of(spec).folder / "model.safetensors").read_bytes() == whole


@pytest.mark.parametrize("method", ["dense", "tap"])
def test_the_log_says_how_many_patches_were_kept(method):
    """Those that reach the last block in training; all sixteen without pruning."""
    spec = spec_of(method)
    train_run(spec, SmallClassification())
    kept = [float(row["kept"]) for row in rows(spec)]
    assert len(kept) == 6
    assert set(kept) == {16.0} if method == "dense" else all(8 <= count < 16 for count in kept)
