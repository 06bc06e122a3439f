"""The classification task: model, loss and evaluation."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tap.config.options import MethodOptions
from tap.config.options.dtop import DtopOptions
from tap.config.register import ControllerConfig
from tap.reducers.registry import available
from tap.tasks.base import Batch
from tap.tasks.classification.task import Classification

DEVICE = torch.device("cpu")


@pytest.fixture
def spec(cls_spec):
    """Settings of a three-block model on 8 x 8 patches; keyword arguments change the job."""

    def make(**changes):
        base = cls_spec(model={"depth": changes.pop("depth", 3)})
        settings = {"controller": ControllerConfig(layers=(1, 2)), "static_split": (40.0, 60.0), "rate": 0.5}
        return base.model_copy(update=settings | changes)

    return make


@pytest.mark.parametrize("method", available())
def test_the_head_of_a_seed_is_the_same_for_all_methods(spec, method):
    task = Classification()
    torch.manual_seed(3)
    options = MethodOptions(dtop=DtopOptions(heads=2)).only(method)  # its usual six do not fit the width
    model = task.build_model(spec(method=method, options=options, depth=12))  # some methods act in fixed blocks
    dense = task.build_model(spec(method="dense", depth=12))
    assert model.encoder.reducer.name == method
    assert model.head.out_features == 10
    assert torch.equal(model.head.weight, dense.head.weight)
    assert torch.equal(model.encoder.vit.pos_embed, dense.encoder.vit.pos_embed)
    other = task.build_model(spec(method=method, options=options, depth=12, seed=1))
    assert not torch.equal(model.head.weight, other.head.weight)


def test_building_leaves_the_global_generator_alone(spec):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    Classification().build_model(spec())
    assert torch.equal(torch.rand(2), expected)


class FixedEncoder:
    def __init__(self, ids: list[int], terms: dict[str, torch.Tensor]) -> None:
        self.ids = ids
        self.reducer = SimpleNamespace(losses=lambda given: terms, task_weight=1.0)

    def __call__(self, images: torch.Tensor, sample_ids: torch.Tensor) -> None:
        self.ids += sample_ids.tolist()


class Fixed(nn.Module):
    """Gives back logits that the test knows; a method adds `terms` to the loss."""

    teacher = None

    def __init__(self, logits: torch.Tensor, terms: dict[str, torch.Tensor] | None = None) -> None:
        super().__init__()
        self.logits = logits
        self.ids: list[int] = []
        self.encoder: Any = FixedEncoder(self.ids, terms or {})

    def classify(self, output: None) -> torch.Tensor:
        return self.logits


def test_the_terms_of_a_method_are_added_to_the_loss_and_shown():
    batch = Batch(torch.zeros(2, 1, 8, 8), torch.tensor([0, 2]), torch.arange(2))
    logits = torch.randn(2, 4)
    plain, shown = Classification().loss(Fixed(logits), batch, 0.0)
    assert shown == {}
    loss, shown = Classification().loss(Fixed(logits, {"ratio": torch.tensor(0.5)}), batch, 0.0)
    torch.testing.assert_close(loss, plain + 0.5)
    assert {name: float(value) for name, value in shown.items()} == {"task_loss": float(plain), "ratio": 0.5}


def test_the_loss_of_16_bit_logits_is_float32():
    """A model of bfloat16 weights, without autocast, which would do it by itself."""
    batch = Batch(torch.zeros(2, 1, 8, 8), torch.tensor([0, 2]), torch.arange(2))
    loss, _ = Classification().loss(Fixed(torch.randn(2, 4).bfloat16()), batch, 0.0)
    assert loss.dtype == torch.float32


def test_loss_of_classes_and_of_class_shares():
    logits = torch.randn(3, 4)
    classes = torch.tensor([0, 3, 1])
    shares = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.0, 0.5, 0.5, 0.0], [0.25, 0.25, 0.25, 0.25]])
    task, model = Classification(), Fixed(logits)
    log = logits - logits.exp().sum(dim=1, keepdim=True).log()
    for targets, expected in (
        (classes, -log[torch.arange(3), classes].mean()),
        (shares, -(shares * log).sum(dim=1).mean()),
    ):
        batch = Batch(torch.zeros(3, 1, 8, 8), targets, torch.tensor([5, 6, 7]))
        loss, _ = task.loss(model, batch, 0.0)
        torch.testing.assert_close(loss, expected)
    assert model.ids == [5, 6, 7] * 2, "random methods need to know the image"


def test_a_step_under_autocast(spec):
    model = Classification().build_model(spec(method="tap"))
    batch = Batch(torch.randn(2, 1, 32, 32), torch.tensor([1, 2]), torch.arange(2))
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = Classification().loss(model, batch, 0.5)
    assert loss.dtype == torch.float32
    loss.backward()
    assert model.encoder.reducer.controller.registers["cls"].grad is not None


@pytest.mark.parametrize("method", ["tap", "random", "dense"])
def test_evaluation_against_one_image_at_a_time(spec, method):
    task, job = Classification(), spec(method=method)
    torch.manual_seed(0)
    model = task.build_model(job)
    nn.init.normal_(model.head.weight, std=1.0)
    model.train()
    evaluation = task.evaluate(model, job, "validation", DEVICE)
    split = task.datasets(job).validation
    correct, tokens = [], []
    model.eval()
    with torch.no_grad():
        for place in range(len(split)):
            sample = split[place]
            logits, trace = model(sample.image[None], torch.tensor([sample.sample_id]), return_trace=True)
            correct.append(logits.argmax().item() == sample.target)
            tokens.append(trace.final_counts.item())
    assert evaluation.per_sample["sample_id"].tolist() == [split[place].sample_id for place in range(len(split))]
    assert evaluation.per_sample["correct"].tolist() == correct
    assert evaluation.per_sample["correct"].dtype == np.bool_
    assert evaluation.per_sample["final_tokens"].tolist() == tokens == [64 if method == "dense" else 32] * 40
    assert 0 < sum(correct) < 40
    measured = {name: value for name, value in evaluation.metrics.items() if not name.startswith("removal_share_")}
    assert measured == {
        "top1": pytest.approx(100 * sum(correct) / 40),
        "images": 40.0,
        "final_tokens_mean": tokens[0],
        "final_tokens_sd": 0.0,
    }
    shares = [value for name, value in evaluation.metrics.items() if re.fullmatch(r"removal_share_\d", name)]
    assert sum(shares) == pytest.approx(100 if method == "tap" else 0)


def test_evaluation_does_not_depend_on_the_batch_size(spec):
    task, job = Classification(), spec(method="tap")
    model = task.build_model(job)
    one, other = (
        task.evaluate(
            model, job.model_copy(update={"eval": job.eval.model_copy(update={"batch_size": size})}), split, DEVICE
        )
        for size, split in ((7, "calibration"), (20, "calibration"))
    )
    assert one.metrics == other.metrics
    assert one.per_sample["sample_id"].tolist() == other.per_sample["sample_id"].tolist()
    assert one.metrics["images"] == 20.0


def test_a_few_steps_learn(spec):
    """Register, readout, backbone and head together fit one batch."""
    task, job = Classification(), spec(method="tap")
    model = task.build_model(job).train()
    nn.init.normal_(model.head.weight, std=0.02)
    split = task.datasets(job).validation
    images = torch.stack([split[i].image for i in range(10)])
    batch = Batch(images, torch.arange(10), torch.arange(10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(0)
    losses = []
    for step in range(30):
        model.encoder.reducer.set_progress(step / 30)
        loss, _ = task.loss(model, batch, step / 30)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert F.cross_entropy(torch.zeros(1, 10), torch.tensor([0])).item() == pytest.approx(losses[0], abs=0.3)
