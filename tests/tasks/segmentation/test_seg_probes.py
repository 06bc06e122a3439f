"""Probes of a dense task: paired endpoints, and the layer probe that follows the better one."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tap.config.load import load_scale
from tap.config.measuring import ProbeConfig
from tap.criteria.registry import get
from tap.engine.checkpoint import save_weights
from tap.plan.runs import run_of
from tap.studies import probes as study
from tap.studies.probe_encoder import Probe
from tap.tasks.registry import get_task

ROOT = Path(__file__).parents[3]
CPU = torch.device("cpu")


@pytest.fixture
def probed(seg_spec, tmp_path, monkeypatch):
    """A smoke scale with two seeds, whose checkpoints are tiny and untrained."""
    cfg = load_scale("smoke", root=ROOT)
    update = {"layers": (3, 9), "criteria": ("attention_max", "coverage"), "images": None}
    probes = cfg.tasks["seg"].probes.model_copy(update=update)
    seg = cfg.tasks["seg"].model_copy(update={"seeds": (0, 1), "probes": probes})
    cfg = cfg.model_copy(update={"tasks": {**cfg.tasks, "seg": seg}})
    spec = seg_spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study, "job_spec", lambda cfg, run: spec.model_copy(update={"seed": run.seed}))
    monkeypatch.setattr(study, "published_weights", lambda run: run.folder / "model.safetensors")
    for seed in (0, 1):
        of_seed = spec.model_copy(update={"seed": seed})
        state = get_task(of_seed).build_model(of_seed).state_dict()
        save_weights(run_of(of_seed).folder / "model.safetensors", state, {})
    return cfg


def test_endpoints_are_paired_and_the_layer_probe_reads_at_the_better_one(probed):
    path = study.run_recovery_probe(probed, "seg")
    frame = pd.read_csv(path)
    pairs = frame[(frame["criterion"] == "coverage") & (frame["metric"] == "miou")]
    assert set(zip(pairs["seed"], pairs["layer"], pairs["endpoint"], strict=True)) == {
        (seed, layer, alpha) for seed in (0, 1) for layer in (3, 9) for alpha in (1.0, 0.0)
    }
    assert set(frame[frame["criterion"] == "dense"]["seed"]) == {0, 1}
    record = json.loads((path.parent / "probe.json").read_text())
    assert len([name for name in record["inputs"] if name.endswith("model.safetensors")]) == 2
    archive = np.load(io.BytesIO((path.parent / "per_sample.npz").read_bytes()))
    assert {len(archive[name]) for name in archive if name != "sample_id"} == {2 * (1 + 2 * 2)}

    means = pairs.groupby("endpoint")["value"].mean()
    better = 1.0 if means[1.0] >= means[0.0] else 0.0
    layers = study.run_layer_probe(probed, "seg")
    frame = pd.read_csv(layers)
    rows = frame[frame["criterion"] != "dense"]
    assert (set(rows["endpoint"]), set(rows["seed"]), set(rows["layer"])) == ({better}, {0}, {3, 9})
    assert set(rows["criterion"]) == {"attention_max", "coverage"}
    record = json.loads((layers.parent / "probe.json").read_text())
    assert path.as_posix() in record["inputs"]
    both = pairs[(pairs["seed"] == 0) & (pairs["endpoint"] == better)].set_index("layer")["value"]
    again = rows[(rows["criterion"] == "coverage") & (rows["metric"] == "miou")].set_index("layer")["value"]
    pd.testing.assert_series_equal(both, again)


@pytest.mark.parametrize("inference", ["whole", "slide"])
def test_windows_share_and_keep_rate_1_is_the_evaluation(seg_spec, inference):
    evaluation = {"inference": inference}
    spec = seg_spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8}, evaluation=evaluation)
    task = get_task(spec)
    model = task.build_model(spec)
    names = ("coverage", "key_kcenter")
    asked = [Probe(layer, get(name), alpha) for layer in (2, 6) for name in names for alpha in (1.0, 0.0)]
    found = study.measure(task, model, spec, asked, ProbeConfig(keep_rate=0.4), CPU)
    for probe in asked[::3]:
        alone = study.measure(task, model, spec, [probe], ProbeConfig(keep_rate=0.4), CPU)[probe]
        assert np.array_equal(found[probe]["areas"], alone["areas"])
        assert "confusion" not in alone
    everything = study.measure(task, model, spec, asked[:2], ProbeConfig(keep_rate=1.0), CPU)
    expected = task.evaluate(model, spec, "validation", CPU).metrics
    for values in everything.values():
        scores = task.score(spec, values)
        assert scores == {name: expected[name] for name in scores}
