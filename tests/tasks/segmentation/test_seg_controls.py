"""The job of a checkpoint's controls: its files, what they hold, and who is turned away."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tap.config.load import load_scale
from tap.engine import passes
from tap.engine.checkpoint import save_weights
from tap.errors import UserError
from tap.plan.runs import run_of
from tap.studies import controls as study
from tap.tasks.registry import get_task
from tap.tasks.segmentation.task import Segmentation

ROOT = Path(__file__).parents[3]


@pytest.fixture
def controlled(seg_spec, tmp_path, monkeypatch):
    """A smoke scale and an untrained TAP checkpoint of its segmentation."""
    spec = seg_spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8})
    spec = spec.model_copy(update={"method": "tap", "rate": 0.5, "static_split": (26.8, 33.4, 39.8)})

    def make(**settings):
        cfg = load_scale("smoke", root=ROOT)
        given = {"images": None, "calibration_images": 2, "oracle_images": 1, "oracle_step": 50} | settings
        controls = cfg.tasks["seg"].controls.model_copy(update=given)
        seg = cfg.tasks["seg"].model_copy(update={"controls": controls})
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(study, "job_spec", lambda cfg, run: spec)
        monkeypatch.setattr("tap.engine.run_weights.published_weights", lambda run: run.folder / "model.safetensors")
        save_weights(run_of(spec).folder / "model.safetensors", get_task(spec).build_model(spec).state_dict(), {})
        return cfg.model_copy(update={"tasks": {**cfg.tasks, "seg": seg}}), run_of(spec)

    return make


@pytest.mark.slow
def test_values_arrays_and_record(controlled, capsys):
    path = study.run_controls(*controlled())
    frame = pd.read_csv(path).drop_duplicates("control").set_index("control")
    assert len(frame) == 1 + 4 + 3 + 3 + 1 + 3 + 18
    assert (frame["exact"] == frame["passes"]).all()
    same = frame.loc[[name for name in frame.index if name.startswith(("matching", "alpha", "zero", "full"))], "digest"]
    assert same.nunique() == 1
    arrays = np.load(io.BytesIO((path.parent / "controls.npz").read_bytes()))
    assert arrays["shares"].shape == arrays["scales"].shape == (3, 3)
    assert arrays["oracle_losses"].shape == (1, 6)
    # Untrained, the register says the same of every image: every scale is that of the initial bias.
    assert np.ptp(arrays["scales"]) == 0.0
    record = json.loads((path.parent / "controls.record.json").read_text())
    assert any(name.endswith("model.safetensors") for name in record["inputs"])
    said = capsys.readouterr().out
    assert f"removals sum to N - K in {frame['passes'].sum()} of {frame['passes'].sum()} passes" in said


@pytest.mark.slow
def test_killed_controls_go_on_with_the_pass_that_was_not_through_and_end_with_the_same_bits(controlled, monkeypatch):
    cfg, run = controlled(images=1, choice_images=1, choice_side=2)
    path, judge, done = study.run_controls(cfg, run), study.judge_choice, []
    files = path, path.parent / "controls.npz"
    whole = [file.read_bytes() for file in files]

    def dies(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(passes, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(study, "judge_choice", dies)
    with pytest.raises(KeyboardInterrupt):
        study.run_controls(cfg, run)
    monkeypatch.setattr(study, "judge_choice", judge)
    monkeypatch.setattr(Segmentation, "evaluate_batch", lambda *arguments: done.append(arguments))
    study.run_controls(cfg, run)
    assert done == []  # the controls themselves were through
    assert [file.read_bytes() for file in files] == whole


def test_a_run_without_a_register_and_a_small_calibration_split_are_refused(controlled):
    cfg, run = controlled(oracle_images=3)
    with pytest.raises(UserError, match="3 images of the calibration split of seg are asked for, and it has 2"):
        study.run_controls(cfg, run)
    assert not (run.folder / "controls.csv").exists()
    with pytest.raises(UserError, match="'random' has no register"):
        study.run_controls(cfg, type(run)("smoke", "seg", "random", 0.5))
