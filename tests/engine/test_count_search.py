"""DiffRate's search within the one training loop, and the thresholds that ATS and ALGM are trained with."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from toy_task import SmallClassification, toy_spec

from tap.config.model import ModelConfig
from tap.config.options import MethodOptions
from tap.config.options.ats import AtsOptions
from tap.config.options.diffrate import DiffRateOptions
from tap.engine.job import train_run
from tap.plan.runs import run_of

SIZES = ModelConfig(image_size=8, patch_size=2, channels=1, width=12, depth=3, heads=2)
LOGITS, SHARES = "encoder.reducer.logits", "encoder.reducer.shares"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(method: str, options: MethodOptions, **changes: object):
    """Initial and published tensors of a training from scratch, and its spec."""
    spec = toy_spec(method, **changes).model_copy(update={"options": options, "model": SIZES})
    task = SmallClassification()
    start = {name: value.clone() for name, value in task.build_model(spec).state_dict().items()}
    train_run(spec, task)
    return start, load_file(run_of(spec).folder / "model.safetensors"), spec


def test_the_search_moves_the_logits_alone():
    options = MethodOptions(diffrate=DiffRateOptions(search=0.5))
    start, end, _ = trained("diffrate", options, length=1, warmup=0)  # one step
    changed = {name for name in start if not torch.equal(start[name], end[name])}
    assert LOGITS in changed
    assert changed <= {LOGITS, SHARES}


def test_then_the_counts_are_fixed_and_the_rest_learns():
    """A longer search takes the logits elsewhere; after either, the backbone has learned."""
    halves = {}
    for search in (0.5, 1.0):
        options = MethodOptions(diffrate=DiffRateOptions(search=search))
        start, halves[search], _ = trained("diffrate", options, warmup=0)
    one, other = halves[0.5], halves[1.0]
    assert not torch.equal(one[LOGITS], start[LOGITS])
    assert not torch.equal(one[LOGITS], other[LOGITS]), "the second half does not search"
    weights = [name for name in start if "qkv.weight" in name]
    assert weights
    assert all(not torch.equal(one[name], start[name]) for name in weights)


def test_ats_is_calibrated():
    """To half of 16 patches; the published weights hold the number of samples."""
    options = MethodOptions(ats=AtsOptions(first_block=1, last_block=2))
    _, end, spec = trained("ats", options)
    record = json.loads((run_of(spec).folder / "run.json").read_text())
    assert record["calibrated_threshold"] == pytest.approx(float(end["encoder.reducer.threshold"]))
    assert record["calibrated_to"] == 8.0
    assert record["calibrated_mean_count"] == pytest.approx(8.0, abs=1.0)
