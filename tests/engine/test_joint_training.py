"""Joint training: a uniform task per step, no update for the others, the same bits after any stop."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from joint_views import TASKS, joint
from tiny_models import tiny_encoder
from toy_task import toy_spec

from tap.config.schema import OptimizerConfig, ScheduleConfig, TrainConfig
from tap.encoder.low_rank import is_low_rank
from tap.engine.distributed import Processes
from tap.engine.joint import Member, task_counts, task_of_step, train_joint
from tap.engine.resume import ResumeStates
from tap.engine.streams import Stream
from tap.errors import UserError
from tap.tasks.base import Batch, Sample, Splits, Task, seeded_rng
from tap.tasks.pretraining.mae import MaskedAutoencoder
from tap.tasks.pretraining.task import Pretraining

NAMES = tuple(TASKS)
SIDES = {"cls": 8, "seg": 12, "det": 8}
SAMPLER = 13  # of 14 steps 4, 5 and 5
BATCHES = {"cls": 4, "seg": 2, "det": 3}


class Killed(Exception):
    pass


class Images(torch.utils.data.Dataset):
    """Random images whose label is the sign of their mean, with noise from the item's seed."""

    def __init__(self, side, length=12):
        self.side, self.length = side, length

    def __len__(self):
        return self.length

    def __getitem__(self, item):
        with seeded_rng(item.seed):
            image = 0.1 * torch.randn(3, self.side, self.side)
        return Sample(image + (item.index % 3 - 1), item.index % 3, item.index, item.seed)


class TinyTask(Task):
    """Cross entropy of a view's answers; dies in the pass number `dies`, gives no number from `bad_from` on."""

    def __init__(self, name, dies=None, bad_from=2.0, length=12):
        self.name, self.dies, self.bad_from, self.length, self.passes = name, dies, bad_from, length, 0

    def datasets(self, spec):
        images = Images(SIDES[self.name], self.length)
        return Splits(images, images, images)

    def collate(self, spec, train):
        return collate

    def build_model(self, spec):
        raise NotImplementedError

    def evaluate(self, model, spec, split, device):
        raise NotImplementedError

    def loss(self, model, batch, progress):
        if self.passes == self.dies:
            raise Killed
        self.passes += 1
        answers = model(batch.images, batch.sample_ids)
        answers = answers if answers.ndim == 2 else answers.mean(1)
        loss = torch.nn.functional.cross_entropy(answers, batch.targets)
        return loss * (float("nan") if progress >= self.bad_from else 1.0), {"seen": float(len(batch.images))}


def collate(samples):
    return Batch(
        torch.stack([sample.image for sample in samples]),
        torch.tensor([sample.target for sample in samples]),
        torch.tensor([sample.sample_id for sample in samples]),
    )


def settings(**changes):
    schedule = ScheduleConfig(kind="cosine", warmup=2)
    given_ = {"length": 14, "unit": "steps", "batch_size": 1, "log_steps": 4, "checkpoint_seconds": 1e-9}
    return TrainConfig(optimizer=OptimizerConfig(lr=3e-2, weight_decay=0.1), schedule=schedule, **given_ | changes)


def members(**tasks):
    return {name: Member(tasks.get(name) or TinyTask(name), toy_spec(batch_size=BATCHES[name])) for name in NAMES}


def run(folder: Path, model=None, processes=None, config=None, **tasks):
    torch.manual_seed(0)
    states = ResumeStates(folder, {"a": 1}, print)
    model = model or joint()
    arguments = (config or settings(), 5, SAMPLER, states, processes or Processes(), torch.device("cpu"))
    return train_joint("joint", members(**tasks), model, model.views, *arguments), model


@given(seed=st.integers(0, 2**40))
def test_every_task_has_its_share_whatever_the_seed(seed):
    counts = task_counts(NAMES, seed, 600)
    assert sum(counts.values()) == 600
    assert all(130 < count < 270 for count in counts.values())  # 200 +- 6 standard deviations
    assert [task_of_step(NAMES, seed, step) for step in range(9)] == [
        task_of_step(NAMES, seed, step) for step in range(9)
    ]


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    return run(tmp_path_factory.mktemp("straight"))


def test_the_base_keeps_its_bytes_and_everything_else_moves(straight):
    _, model = straight
    torch.manual_seed(0)
    fresh = joint()
    assert {task: model.base_hash(task) for task in NAMES} == {task: fresh.base_hash(task) for task in NAMES}
    before = dict(fresh.named_parameters())
    still = {name for name, p in model.named_parameters() if p.requires_grad and torch.equal(p, before[name])}
    assert not [name for name in still if is_low_rank(name) or "registers" in name or "head" in name], still


def test_the_log_holds_loss_norm_and_share_of_each_task(straight):
    rows = straight[0].rows
    assert [row["step"] for row in rows] == [4, 8, 12, 14]
    for row, width in zip(rows, (4, 4, 4, 2), strict=True):
        shares = {task: row.get(f"{task}.share", 0.0) for task in NAMES}
        first = int(row["step"]) - width
        drawn = [task_of_step(NAMES, SAMPLER, step) for step in range(first, first + width)]
        assert shares == {task: drawn.count(task) / width for task in NAMES}
        for task in set(drawn):
            assert row[f"{task}.loss"] > 0
            assert row[f"{task}.grad_norm"] > 0
            assert row[f"{task}.seen"] == BATCHES[task]


@pytest.mark.slow
@pytest.mark.parametrize("task", NAMES)
@pytest.mark.parametrize("passes", [0, 2])
def test_stopped_anywhere_and_resumed_equals_one_go(tmp_path, straight, task, passes):
    with pytest.raises(Killed):
        run(tmp_path, **{task: TinyTask(task, dies=passes)})
    again, _ = run(tmp_path)
    assert again.rows == straight[0].rows
    assert all(torch.equal(tensor, straight[0].tensors[name]) for name, tensor in again.tensors.items())


def test_two_processes_make_the_update_of_one(tmp_path):
    """The same task on all ranks, each with its part of the batch: the mean of their gradients is that of the whole."""
    for task, batch in BATCHES.items():
        if batch % 2:
            continue
        whole, halves = [], []
        for rank, world in ((0, 1), (0, 2), (1, 2)):
            torch.manual_seed(0)
            model = joint().eval()
            stream = Stream(12, batch, 7, rank, world)
            data = Images(SIDES[task])
            samples = collate([data[item] for item in stream.batch(3)])
            loss, _ = TinyTask(task).loss(model.view(task), samples, 0.0)
            loss.backward()
            grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
            (whole if world == 1 else halves).append((float(loss), grads))
        assert sum(loss for loss, _ in halves) / 2 == pytest.approx(whole[0][0], abs=1e-5)
        for name, expected in whole[0][1].items():
            mean = (halves[0][1][name] + halves[1][1][name]) / 2
            torch.testing.assert_close(mean, expected, rtol=1e-4, atol=1e-5)


def test_a_loss_that_is_no_number_names_task_and_step_and_keeps_the_states(tmp_path):
    step = next(step for step in range(9, 14) if task_of_step(NAMES, SAMPLER, step) == "seg")
    with pytest.raises(UserError, match=rf"loss is nan of task 'seg' at step {step} of 14"):
        run(tmp_path, seg=TinyTask("seg", bad_from=step / 13 - 1e-6))
    assert len(list(tmp_path.glob("*-step-*.state"))) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"config": settings(unit="epochs")}, "no common epoch"),
        ({"config": settings(ema=0.9)}, "leave it out"),
        ({"det": TinyTask("det", length=0)}, "tasks.det: has no training image"),
        ({"det": TinyTask("det", length=2)}, "more than the 2 training samples"),
    ],
)
def test_refusals(tmp_path, changes, words):
    with pytest.raises(UserError, match=words):
        run(tmp_path, **changes)
    assert not list(tmp_path.glob("*.state"))


def test_views_that_are_one_model_share_every_update(tmp_path):
    """A pre-training over the images of two tasks, of different sizes."""
    encoder = tiny_encoder("dense", 1.0, grid=(6, 6), dynamic_img_size=True)
    model = MaskedAutoencoder(encoder, 0.75, 8, 1, 2)
    tasks = {name: Member(Reconstruction(TinyTask(name)), toy_spec(batch_size=4)) for name in ("cls", "seg")}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    arguments = (settings(length=6), 5, 9, ResumeStates(tmp_path, {}, print), Processes(), torch.device("cpu"))
    trained = train_joint("mae", tasks, model, dict.fromkeys(tasks, model), *arguments)
    assert trained.steps == 6
    assert {name for row in trained.rows for name in row if name.endswith(".loss")} == {"cls.loss", "seg.loss"}
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert {"encoder.vit.pos_embed", "encoder.vit.blocks.0.attn.qkv.weight", "predict.1.weight"} <= moved


class Reconstruction(Pretraining):
    """The pre-training's loss on a tiny task's images."""

    def __init__(self, task):
        self.task = task
