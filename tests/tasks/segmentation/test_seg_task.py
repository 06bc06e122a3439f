import subprocess
import sys

import numpy as np
import pytest
import torch

from tap.config.options import MethodOptions
from tap.config.options.dtop import DtopOptions
from tap.paper.statistics import mean_iou
from tap.tasks.base import Batch
from tap.tasks.registry import get_task
from tap.tasks.segmentation.task import Segmentation

CPU = torch.device("cpu")


@pytest.fixture
def job(seg_spec):
    """A task, its model and its settings."""

    def make(method="tap", rate=0.5, recovery=None, evaluation=None, options=None, **data):
        spec = seg_spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8}, evaluation=evaluation, **data)
        settings = spec.recovery.model_copy(update=recovery or {})
        spec = spec.model_copy(update={"method": method, "rate": rate, "recovery": settings, "options": options})
        task = get_task(spec)
        assert isinstance(task, Segmentation)
        return task, task.build_model(spec), spec

    return make


@pytest.mark.parametrize("inference", ["whole", "slide"])
def test_metrics_and_the_values_behind_them(job, inference):
    task, model, spec = job(evaluation={"inference": inference})
    result = task.evaluate(model, spec, "validation", CPU)
    per_sample, metrics = result.per_sample, result.metrics
    assert per_sample["sample_id"].tolist() == [0, 1, 2]
    assert per_sample["confusion"].shape == (3, 4, 4)
    assert per_sample["confusion"].dtype == np.int64
    labels = [task.datasets(spec).validation[number].target.labels for number in range(3)]
    assert per_sample["confusion"].sum(axis=(1, 2)).tolist() == [int((label != 255).sum()) for label in labels]
    assert metrics["miou"] == pytest.approx(float(mean_iou(per_sample["confusion"].sum(axis=0).astype(float))))
    assert metrics["images"] == 3
    patches = 4 * 5 if inference == "whole" else 4 * 4
    assert per_sample["final_tokens"].tolist() == [patches / 2] * 3
    assert metrics["final_tokens_mean"] == patches / 2
    assert metrics["final_tokens_sd"] == 0
    assert "recovery_endpoint" not in metrics


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_common_recovery_tells_its_endpoint(job, alpha):
    task, model, spec = job("random", recovery={"endpoint": alpha})
    assert task.evaluate(model, spec, "validation", CPU).metrics["recovery_endpoint"] == alpha
    assert model.encoder.recovery.scale == alpha


@pytest.mark.parametrize("method", ["dense", "tap"])
def test_the_loss_falls_on_a_toy_batch(job, method):
    task, model, _ = job(method, 1.0 if method == "dense" else 0.5)
    torch.manual_seed(0)
    labels = torch.randint(0, 4, (4, 4, 4)).repeat_interleave(8, 1).repeat_interleave(8, 2)
    colours = torch.randn(4, 3)
    images = colours[labels].movedim(-1, 1) + 0.1 * torch.randn(4, 3, 32, 32)
    batch = Batch(images, labels, torch.arange(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model.train()
    losses = []
    for step in range(30):
        model.encoder.reducer.set_progress(step / 30)
        loss, extra = task.loss(model, batch, step / 30)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(np.log(4), abs=0.2)
    assert np.mean(losses[-3:]) < 0.8 * losses[0]
    assert 40 < float(extra["pixel_accuracy"]) <= 100


@pytest.mark.parametrize(("method", "term"), [("dtop", "dice_6"), ("cropr", "auxiliary_3")])
def test_terms_of_a_method_reach_the_loss_and_its_own_weights(job, reaches_own_weights, method, term):
    options = MethodOptions(dtop=DtopOptions(heads=2)).only(method)  # its usual six do not fit the width
    task, model, _ = job(method, options=options)
    batch = Batch(torch.randn(2, 3, 32, 32), torch.randint(0, 4, (2, 32, 32)), torch.arange(2))
    reaches_own_weights(task, model, batch, term)


@pytest.mark.slow
def test_classification_jobs_do_not_import_mmsegmentation():
    code = "import sys, tap.tasks.registry, tap.engine.job; sys.exit(bool({'mmseg', 'mmengine'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_importing_the_task_prints_nothing():
    code = "import tap.tasks.segmentation.task"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_random_encoder_is_frozen_and_its_head_is_not(job):
    task, _, spec = job("dense", 1.0)
    model = task.build_model(spec.model_copy(update={"variant": "random-encoder"}))
    assert not any(parameter.requires_grad for parameter in model.encoder.parameters())
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained
    assert all(".vit." not in name for name in trained)
