"""Micro-batches, whose gradients add up to those of the batch, and activations that are computed again: same update."""

import pytest
import torch

from tap.engine.accumulation import split_batch
from tap.engine.distributed import Processes
from tap.engine.loop import Lane, Plan, Training
from tap.errors import UserError
from tap.tasks.base import Batch, Item
from tap.tasks.registry import get_task

CPU = torch.device("cpu")
ALL_SAMPLED = {"proposal_samples": 4000, "box_samples": 600}  # where every region is taken, nothing is drawn


@pytest.fixture
def spec_of(request):
    """Settings of a task at a keep rate, with a method that draws nothing."""

    def make(task, method, rate):
        spec = request.getfixturevalue(f"{task}_spec")
        if task == "seg":
            spec = spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8})
        elif task == "det":
            spec = spec()
            detector = spec.model.detector.model_copy(update=ALL_SAMPLED)
            spec = spec.model_copy(update={"model": spec.model.model_copy(update={"detector": detector})})
        else:
            spec = spec()
        controller = spec.controller.model_copy(update={"gumbel": False})
        return spec.model_copy(update={"method": method, "rate": rate, "controller": controller})

    return make


def images_of(task, spec, same=False):
    """Four training images, or one four times."""
    train = get_task(spec).datasets(spec).train
    items = [Item(0 if same else index, 5) for index in range(4)]
    return get_task(spec).collate(spec, True)([train[item] for item in items])


def model_of(spec):
    """The model of a job, whose segmentation head drops no channel."""
    model = get_task(spec).build_model(spec)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout2d):
            module.p = 0.0
    return model


def step(task, spec, batch=None, **settings):
    """Loss, gradients and what the log shows of one step."""
    config = spec.train.model_copy(update={"unit": "steps", "length": 4, **settings})
    said = []
    model = model_of(spec)
    training = Training(Plan("a run", 0, config, 1, 4), model.train(), Processes(), CPU)
    batch = images_of(task, spec) if batch is None else batch
    training.update(Lane(get_task(spec), model, iter([batch])), say=said.append)
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return training.log(), grads, said


CASES = [
    ("cls", "tap", 0.5),
    pytest.param("seg", "tap", 0.5, marks=pytest.mark.slow),
    pytest.param("det", "dense", 1.0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("task", "method", "rate"), CASES)
def test_micro_batches_make_the_update_of_the_batch(spec_of, task, method, rate):
    """Over a share go the batch norm of the segmentation head, and the regions that detection's losses divide by."""
    spec = spec_of(task, method, rate)
    batch = images_of(task, spec, same=task != "cls")
    whole, expected, _ = step(task, spec, batch)
    for size in (1, 3) if task == "cls" else (2,):
        row, found, _ = step(task, spec, batch, micro_batch=size)
        assert row["loss"] == pytest.approx(whole["loss"], abs=1e-5)
        assert row.keys() == whole.keys()
        assert row["kept"] == pytest.approx(whole["kept"])
        assert found.keys() == expected.keys()
        for name, grad in expected.items():
            assert torch.allclose(found[name], grad, atol=1e-5 * max(1.0, float(grad.abs().max()))), name


def test_activations_that_are_computed_again_change_no_bit(spec_of):
    spec = spec_of("cls", "tap", 0.5)
    whole, expected, _ = step("cls", spec)
    row, found, _ = step("cls", spec, checkpointing=True)
    assert row == whole
    assert all(torch.equal(found[name], grad) for name, grad in expected.items())


class SmallCard:
    """Stands for a card that holds so many images: a task whose loss runs out of memory with more."""

    def __init__(self, task, holds):
        self._task, self._holds = task, holds
        self.tried = []

    def loss(self, model, batch, progress):
        self.tried.append(len(batch.images))
        if len(batch.images) > self._holds:
            raise torch.OutOfMemoryError
        return self._task.loss(model, batch, progress)


def test_where_memory_runs_out_half_as_many_pass_and_the_log_says_so(spec_of):
    spec = spec_of("cls", "tap", 0.5)
    _, expected, _ = step("cls", spec)
    config = spec.train.model_copy(update={"unit": "steps", "length": 4, "micro_batch": "auto"})
    model, said = get_task(spec).build_model(spec), []
    training = Training(Plan("a run", 0, config, 1, 4), model.train(), Processes(), CPU)
    card = SmallCard(get_task(spec), 1)
    lane = Lane(card, model, iter([images_of("cls", spec)] * 2))
    training.update(lane, say=said.append)
    assert card.tried == [4, 2, 1, 1, 1, 1]
    assert said == [
        "out of memory with 4 images at once at step 0; goes on with 2",
        "out of memory with 2 images at once at step 0; goes on with 1",
    ]
    for name, grad in expected.items():
        assert torch.allclose(dict(model.named_parameters())[name].grad, grad, atol=1e-5), name
    training.update(lane)
    assert card.tried[6:] == [1] * 4  # found out once
    training.settle()
    again = Training(Plan("a run", 0, config, 1, 4), model, Processes(), CPU)
    again.restore(training.state())
    again.update(Lane(card, model, iter([images_of("cls", spec)])))
    assert card.tried[10:] == [1] * 4  # a resumed training knows
    assert again.result().facts == {"micro_batch": {"": 1}}


@pytest.mark.parametrize(
    ("micro_batch", "holds", "match"),
    [
        (None, 3, "does not hold a pass of 4 image.*micro_batch to 'auto'"),
        (2, 1, "does not hold a pass of 2 image"),
        ("auto", 0, "does not hold a pass of 1 image.*a larger card"),
    ],
)
def test_a_card_that_is_too_small_is_said(spec_of, micro_batch, holds, match):
    spec = spec_of("cls", "dense", 1.0)
    config = spec.train.model_copy(update={"unit": "steps", "length": 4, "micro_batch": micro_batch})
    model = get_task(spec).build_model(spec)
    training = Training(Plan("a run", 0, config, 1, 4), model.train(), Processes(), CPU)
    lane = Lane(SmallCard(get_task(spec), holds), model, iter([images_of("cls", spec)]))
    with pytest.raises(UserError, match=rf"a run: the card's memory {match}"):
        training.update(lane, say=lambda line: None)


def test_a_batch_is_cut_through_all_that_it_holds():
    targets = [{"boxes": torch.zeros(number, 4)} for number in range(4)]
    batch = Batch(torch.randn(4, 3, 2, 2), targets, torch.arange(4), 9)
    parts = split_batch(batch, 3)
    assert [len(part.images) for part in parts] == [3, 1]
    assert [len(target["boxes"]) for part in parts for target in part.targets] == [0, 1, 2, 3]
    assert torch.equal(torch.cat([part.sample_ids for part in parts]), batch.sample_ids)
    assert [part.seed for part in parts] == [9, 9]
    assert split_batch(batch, 4)[0] is batch
    shares = split_batch(Batch(batch.images, {"classes": torch.arange(4)}, batch.sample_ids), 2)
    assert [part.targets["classes"].tolist() for part in shares] == [[0, 1], [2, 3]]


class OneOfTwo(Processes):
    """One of two processes whose gradients are looked at before they are averaged."""

    def any_of(self, *flags):
        return flags

    def mean(self, values):
        return values

    def average_gradients(self, parameters):
        pass


@pytest.mark.parametrize(
    ("task", "method", "rate"), [*CASES[:2], pytest.param("det", "tap", 0.5, marks=pytest.mark.slow)]
)
def test_shares_of_a_stated_size_draw_the_same_whoever_computes_them(spec_of, task, method, rate):
    """Two processes of two images each, and one that passes two at once: with Gumbel noise and drop path."""
    spec = spec_of(task, method, rate)
    controller = spec.controller.model_copy(update={"gumbel": True})
    sizes = spec.model.model_copy(update={"drop_path": 0.3})
    spec = spec.model_copy(update={"controller": controller, "model": sizes})
    batch = images_of(task, spec)
    row, expected, _ = step(task, spec, batch, micro_batch=2)
    losses, sums = [], {}
    for rank, half in enumerate(split_batch(batch, 2)):
        model = model_of(spec)
        config = spec.train.model_copy(update={"unit": "steps", "length": 4, "micro_batch": 2})
        training = Training(Plan("a run", 0, config, 1, 4), model.train(), OneOfTwo(rank, 2), CPU)
        training.update(Lane(get_task(spec), model, iter([half])))
        losses.append(training.log()["loss"])
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                sums[name] = sums.get(name, 0) + parameter.grad / 2
    assert sum(losses) / 2 == pytest.approx(row["loss"], abs=1e-5)
    for name, grad in expected.items():
        assert torch.allclose(sums[name], grad, atol=1e-5 * max(1.0, float(grad.abs().max()))), name
