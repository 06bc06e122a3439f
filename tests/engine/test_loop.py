"""A training that is stopped anywhere and goes on ends with the same bits as one in one go."""

import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_task import SmallClassification, ToyTask, toy_spec

from tap.engine.distributed import Processes
from tap.engine.loop import Training, train
from tap.engine.resume import ResumeStates
from tap.engine.stopping import Stopped
from tap.errors import UserError
from tap.reducers.base import Reducer, ReducerSettings


class Killed(Exception):
    pass


class Dying(ToyTask):
    """Stops the training in the middle of a step, as a kill does."""

    def __init__(self, at, total=12, **options):
        super().__init__(**options)
        self._at = at / (total - 1)

    def loss(self, model, batch, progress):
        if progress >= self._at:
            raise Killed
        return super().loss(model, batch, progress)


def run(folder: Path, task=None, spec=None, device=torch.device("cpu")):
    task, spec = task or ToyTask(), spec or toy_spec()
    return train(spec, task, task.build_model(spec), ResumeStates(folder, {"a": 1}, print), Processes(), device)


def same(first, second):
    return first.rows == second.rows and all(
        torch.equal(tensor, second.tensors[name]) for name, tensor in first.tensors.items()
    )


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    return run(tmp_path_factory.mktemp("straight"))


def test_the_loss_falls_and_the_log_says_how(straight):
    assert [row["step"] for row in straight.rows] == [2, 4, 6, 8, 10, 12]
    assert straight.rows[-1]["loss"] < 0.8 * straight.rows[0]["loss"]
    assert straight.rows[-1]["epoch"] == pytest.approx(12 / 3)
    assert straight.rows[-1]["progress"] == pytest.approx((10 / 11 + 1) / 2)
    assert straight.steps == 12


@pytest.mark.parametrize("stops", [(1,), (3,), (6, 7), (2, 5, 11), (11,)])
def test_stopped_and_resumed_equals_one_go(tmp_path, straight, stops):
    for stop in stops:
        with pytest.raises(Killed):
            run(tmp_path, Dying(stop))
    torch.manual_seed(99)  # what else happened in the process does not matter
    np.random.seed(99)  # noqa: NPY002
    random.seed(99)
    assert same(run(tmp_path), straight)


def test_the_register_trains_and_resumes_like_the_rest(tmp_path):
    class Dies(SmallClassification):
        def loss(self, model, batch, progress):
            if progress > 0.5:
                raise Killed
            return super().loss(model, batch, progress)

    spec = toy_spec("tap")
    whole = run(tmp_path / "a", SmallClassification(), spec)
    with pytest.raises(Killed):
        run(tmp_path / "b", Dies(), spec)
    assert same(run(tmp_path / "b", SmallClassification(), spec), whole)
    initial = SmallClassification().build_model(spec).state_dict()
    controller = [name for name in initial if ".reducer." in name and "recovery" not in name]
    assert controller
    assert not any(torch.equal(initial[name], whole.tensors[name]) for name in controller)


@pytest.mark.parametrize("steps", [1, 5])
def test_the_reducer_hears_of_the_progress_before_every_step(tmp_path, steps):
    heard = []

    class Hearing(Reducer):
        def set_progress(self, progress):
            heard.append(progress)

    class Task(ToyTask):
        def build_model(self, spec):
            model = super().build_model(spec)
            model.encoder.reducer = Hearing(ReducerSettings(width=12, depth=2, layers=(1,)))
            model.encoder.reducer.forward = lambda features: features
            return model

    run(tmp_path, Task(), toy_spec(length=steps, warmup=0))
    assert heard == pytest.approx([step / max(1, steps - 1) for step in range(steps)])


def test_a_resumed_training_does_not_start_over(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, Dying(7))
    seen = []

    class Watching(ToyTask):
        def loss(self, model, batch, progress):
            seen.append(round(progress * 11))
            return super().loss(model, batch, progress)

    run(tmp_path, Watching())
    assert seen == [6, 7, 8, 9, 10, 11]


def test_a_finished_training_that_was_not_published_needs_no_step(tmp_path, straight):
    run(tmp_path)
    assert same(run(tmp_path, Dying(0)), straight)


def test_the_weight_average_is_published_and_resumes_too(tmp_path, straight):
    spec = toy_spec(ema=0.9)
    whole = run(tmp_path / "a", spec=spec)
    with pytest.raises(Killed):
        run(tmp_path / "b", Dying(7), spec)
    assert same(run(tmp_path / "b", spec=spec), whole)
    assert not torch.equal(whole.tensors["head.1.weight"], straight.tensors["head.1.weight"])


@pytest.mark.parametrize("workers", [1, 2])
def test_the_number_of_loading_processes_changes_nothing(tmp_path, straight, workers):
    spec = toy_spec()
    spec = spec.model_copy(update={"data": spec.data.model_copy(update={"workers": workers})})
    assert same(run(tmp_path, spec=spec), straight)


def test_another_seed_gives_other_weights(tmp_path, straight):
    assert not same(run(tmp_path, spec=toy_spec(seed=1)), straight)


def test_bf16_trains_and_keeps_its_weights_in_full_precision(tmp_path, straight):
    found = run(tmp_path, spec=toy_spec(precision="bf16"))
    assert {tensor.dtype for tensor in found.tensors.values() if tensor.is_floating_point()} == {torch.float32}
    assert not same(found, straight)
    assert found.rows[-1]["loss"] == pytest.approx(straight.rows[-1]["loss"], rel=0.1)


@pytest.mark.parametrize("clip", [None, 0.01])
def test_a_step_is_as_long_as_the_clipped_gradient(tmp_path, clip):
    # With an eps far above every gradient the first AdamW step is lr / eps times the gradient.
    optimizer = {"lr": 1e3, "eps": 1e6, "weight_decay": 0.0, "layer_decay": 1.0, "clip_grad": clip}
    spec = toy_spec(length=1, warmup=0, log_steps=1, optimizer=optimizer)
    before = dict(ToyTask().build_model(spec).named_parameters())
    found = run(tmp_path, spec=spec)
    step = torch.cat([(found.tensors[name] - old).flatten() for name, old in before.items()]).norm().item()
    gradient = found.rows[0]["grad_norm"]
    assert gradient > 0.1
    assert step == pytest.approx((clip or gradient) * 1e-3, rel=2e-2)


def test_a_loss_that_is_not_a_number_stops_with_the_run_the_step_and_the_rate(tmp_path):
    with pytest.raises(UserError, match=r"cls/dense/r1\.00/main/s0: loss is nan at step 7 of 12 \(learning rate 0\.00"):
        run(tmp_path, ToyTask(bad_from=7 / 11))
    states = sorted(path.name[13:27] for path in tmp_path.glob("*.state"))
    assert states == ["step-000000004", "step-000000006"]  # nothing of step 7 or later was kept


def test_where_finiteness_is_looked_at_only_with_a_log_row_the_message_is_the_same(tmp_path, monkeypatch):
    check = Training._check_finite
    # as on a GPU: the look at a single step, which waits for it, is left out
    monkeypatch.setattr(Training, "_check_finite", lambda self, *args: len(args[0]) > 1 and check(self, *args))
    with pytest.raises(UserError, match="loss is nan at step 5 of 12"):
        run(tmp_path, ToyTask(bad_from=5 / 11), toy_spec(log_steps=4))
    assert [path.name[13:27] for path in tmp_path.glob("*.state")] == ["step-000000004"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_a_gpu_it_trains_resumes_and_stops_as_on_the_cpu(tmp_path, straight, precision):
    spec, gpu = toy_spec(precision=precision, ema=0.5), torch.device("cuda")
    found = run(tmp_path / "whole", ToyTask(noisy=False), spec, device=gpu)
    assert found.rows[-1]["loss"] == pytest.approx(straight.rows[-1]["loss"], rel=0.2)
    with pytest.raises(Killed):
        run(tmp_path / "resumed", Dying(7, noisy=False), spec, device=gpu)
    again = run(tmp_path / "resumed", ToyTask(noisy=False), spec, device=gpu)
    assert again.rows[-1]["loss"] == pytest.approx(found.rows[-1]["loss"], rel=1e-2)
    with pytest.raises(UserError, match="loss is nan at step 5 of 12"):
        run(tmp_path / "bad", ToyTask(bad_from=5 / 11), spec, device=gpu)


def test_a_gradient_that_is_not_finite_stops_before_the_weights_change(tmp_path):
    class Steep(ToyTask):
        def loss(self, model, batch, progress):
            loss, extra = super().loss(model, batch, progress)
            return loss + (model.head[1].bias * 0).sum().sqrt(), extra

    with pytest.raises(UserError, match="gradient norm is nan at step 0"):
        run(tmp_path, Steep())
    assert not list(tmp_path.glob("*.state"))


class Asked(ToyTask):
    """Is asked to end (SIGTERM) within the step `at`."""

    def __init__(self, at, total=12):
        super().__init__()
        self._at = at / (total - 1)

    def loss(self, model, batch, progress):
        if abs(progress - self._at) < 1e-9:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().loss(model, batch, progress)


@pytest.mark.parametrize("at", [2, 3, 10])
def test_asked_to_end_it_keeps_a_state_within_a_log_row_too_and_ends_with_the_same_bits(tmp_path, straight, at):
    before = signal.getsignal(signal.SIGTERM)
    spec = toy_spec(checkpoint_seconds=1000)  # no other state is kept
    with pytest.raises(Stopped, match=rf"asked to end \(SIGTERM\) at step {at + 1} of 12; its state is kept"):
        run(tmp_path, Asked(at), spec)
    assert signal.getsignal(signal.SIGTERM) is before
    (state,) = tmp_path.glob("*.state")
    assert f"-step-{at + 1:09d}-" in state.name
    assert same(run(tmp_path, spec=spec), straight)
