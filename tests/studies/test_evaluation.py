"""Evaluation jobs: what they publish of a trained run, and what they refuse."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toy_task import SmallClassification, ToyTask, toy_spec

from tap.engine.job import train_run
from tap.errors import UserError
from tap.plan.runs import run_of
from tap.studies.evaluation import evaluate_run


@pytest.fixture
def trained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = toy_spec("tap")
    train_run(spec, SmallClassification())
    return spec


def test_an_evaluation_publishes_metrics_per_image_values_and_its_record(trained):
    threads = torch.get_num_threads()
    evaluate_run(trained, SmallClassification())
    assert torch.get_num_threads() == threads
    folder = run_of(trained).folder
    metrics = json.loads((folder / "metrics.json").read_text())
    arrays = np.load(folder / "per_sample.npz")
    assert metrics["top1"] == pytest.approx(100 * arrays["correct"].mean())
    assert len(arrays["sample_id"]) == 9
    assert set(arrays["final_tokens"]) == {2}
    tensors = load_file(folder / "model.safetensors")
    assert metrics["parameters"] == sum(tensor.numel() for tensor in tensors.values())
    assert 0 < metrics["parameters_added"] < metrics["parameters"]
    assert metrics["patches"] == 4
    assert not [name for name in metrics if "per_second" in name or "speedup" in name], "no time is measured"
    assert metrics["device"].endswith("1 thread")
    record = json.loads((folder / "evaluation.json").read_text())
    assert sorted(record["outputs"]) == [f"{folder}/metrics.json", f"{folder}/per_sample.npz"]
    assert list(record["inputs"]) == [f"{folder}/model.safetensors", f"{folder}/run.json"]


def test_evaluating_again_gives_the_same_bytes(trained):
    found = []
    for _ in range(2):
        evaluate_run(trained, SmallClassification())
        found.append([(run_of(trained).folder / name).read_bytes() for name in ("metrics.json", "per_sample.npz")])
    assert found[0] == found[1]


def test_a_pretraining_has_no_facts_of_a_method(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = toy_spec("mae")
    train_run(spec, ToyTask())
    evaluate_run(spec, ToyTask())
    metrics = json.loads((run_of(spec).folder / "metrics.json").read_text())
    assert set(metrics) == {"top1", "parameters", "device"}


def test_a_run_that_is_not_trained_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"run cls/tap/r0\.50/main/s0 is not trained yet"):
        evaluate_run(toy_spec("tap"), SmallClassification())


def test_edited_weights_and_weights_of_another_width_are_refused_and_older_results_stay(trained):
    evaluate_run(trained, SmallClassification())
    folder = run_of(trained).folder
    before = (folder / "metrics.json").read_bytes()
    with pytest.raises(UserError, match="weights of another size"):
        evaluate_run(toy_spec("tap", width=24), SmallClassification())
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(UserError, match="differs from what"):
        evaluate_run(trained, SmallClassification())
    assert (folder / "metrics.json").read_bytes() == before
