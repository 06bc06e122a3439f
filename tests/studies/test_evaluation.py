"""Evaluation jobs: what they publish of a trained run, and what they refuse."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toy_task import SmallClassification, ToyTask, toy_spec

from tap.config.schema import ProfileConfig
from tap.engine.job import train_run
from tap.errors import UserError
from tap.plan.runs import run_of
from tap.studies.evaluation import evaluate_run


def spec_of(method, **settings):
    profile = ProfileConfig(batch_size=4, warmup=1, iterations=2, dtype="fp32", threads=1)
    return toy_spec(method, **settings).model_copy(update={"profile": profile})


@pytest.fixture
def trained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = spec_of("tap")
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
    assert metrics["encoder_speedup"] > 0
    assert (metrics["dtype"], metrics["batch_size"], metrics["threads"]) == ("fp32", 4, 1)
    assert metrics["device"].endswith("1 thread")
    record = json.loads((folder / "evaluation.json").read_text())
    assert sorted(record["outputs"]) == [f"{folder}/metrics.json", f"{folder}/per_sample.npz"]
    assert list(record["inputs"]) == [f"{folder}/model.safetensors", f"{folder}/run.json"]


def test_evaluating_again_gives_the_same_results_but_for_the_times(trained):
    found = []
    for _ in range(2):
        evaluate_run(trained, SmallClassification())
        metrics = json.loads((run_of(trained).folder / "metrics.json").read_text())
        timed = {name for name in metrics if "per_second" in name or "speedup" in name}
        per_sample = (run_of(trained).folder / "per_sample.npz").read_bytes()
        found.append(({name: metrics[name] for name in metrics.keys() - timed}, per_sample))
    assert found[0] == found[1]


def test_a_pretraining_is_evaluated_without_a_profile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = spec_of("mae")
    train_run(spec, ToyTask())
    evaluate_run(spec, ToyTask())
    metrics = json.loads((run_of(spec).folder / "metrics.json").read_text())
    assert set(metrics) == {"top1", "parameters", "device"}


def test_a_run_that_is_not_trained_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"run cls/tap/r0\.50/main/s0 is not trained yet"):
        evaluate_run(spec_of("tap"), SmallClassification())


def test_edited_weights_and_weights_of_another_width_are_refused_and_older_results_stay(trained):
    evaluate_run(trained, SmallClassification())
    folder = run_of(trained).folder
    before = (folder / "metrics.json").read_bytes()
    with pytest.raises(UserError, match="weights of another size"):
        evaluate_run(spec_of("tap", width=24), SmallClassification())
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(UserError, match="differs from what"):
        evaluate_run(trained, SmallClassification())
    assert (folder / "metrics.json").read_bytes() == before
