"""The one training loop: every task, every method and the pre-training go through `train`.

A step is a function of the weights, the optimizer's state and the step's number. Its samples come from a `Stream`, its
learning rate from a `Schedule`, and all its random draws from generators that are seeded anew for it, so a state of
(weights, optimizer, log) is all that a killed training needs to end with the same bits. That holds on a CPU with the
same number of threads; sums split among other numbers of threads differ in the last digits.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timm.utils import ModelEmaV3
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from tap.config.schema import JobSpec, TrainConfig
from tap.encoder.sparse_vit import SparseEncoder
from tap.engine.accumulation import OutOfMemory, checkpoint_blocks, micro_batch_of, split_batch, weighted_sums
from tap.engine.distributed import Processes
from tap.engine.optim import build_optimizer, scale_parts
from tap.engine.reporting import Display, Row
from tap.engine.resume import ResumeStates
from tap.engine.schedule import Schedule
from tap.engine.stopping import Stopped, stop_requests
from tap.engine.streams import Stream, total_steps
from tap.errors import UserError
from tap.plan.runs import run_of
from tap.reducers.base import Reducer
from tap.seeds import derive_seed
from tap.tasks.base import Batch, Task


class NotFinite(UserError):
    """A loss or gradient is no number any more."""


@dataclass
class Trained:
    """What a finished training leaves.

    Attributes:
        tensors: the weights to publish (the average, where an EMA is on).
        rows: the log.
        steps: optimizer steps.
        seconds: time spent in the loop, over all processes that worked on it one after the other.
        facts: what the record says of it beside that; JSON values.
    """

    tensors: dict[str, Tensor]
    rows: list[Row]
    steps: int
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Lane:
    """One task's way through the loop: a step takes one batch of one lane and makes one update.

    Attributes:
        task: gives the loss.
        model: the view of the network that this task trains.
        batches: its batches, in order, from the step at which this process starts.
        label: what the log's columns of this lane begin with, where there are several.
    """

    task: Task
    model: nn.Module
    batches: Iterator[Batch]
    label: str = ""


@dataclass
class _Window:
    """Losses, gradient norms and further values of the steps since the last log row, still on the device.

    Attributes:
        settled: (loss, gradient norm) of its first steps, which an earlier process did, over all processes `(k, 2)`.
        values: the same of the steps after them, of this process alone.
        extras, labels: of all its steps.
    """

    settled: Tensor = field(default_factory=lambda: torch.zeros(0, 2))
    values: list[Tensor] = field(default_factory=list)
    extras: list[dict[str, float]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


def train(
    spec: JobSpec,
    task: Task,
    model: nn.Module,
    states: ResumeStates,
    processes: Processes,
    device: torch.device,
    events: Path | None = None,
) -> Trained:
    """Trains `model` from the newest resume state, or from the weights it has, to the end of the schedule.

    Args:
        spec: all settings.
        task: data and loss.
        model: on any device; is moved to `device`.
        states: where to resume from and where to keep states. Its last state stays, for a caller that is killed before
            it has published the result.
        processes: this process among those of the job.
        device: where to compute.
        events: folder of the TensorBoard events; None keeps none.

    Raises:
        UserError: a loss or gradient is not finite, or the settings contradict the data.
    """
    dataset = task.datasets(spec).train
    stream = Stream(len(dataset), spec.train.batch_size, spec.seed, processes.rank, processes.world_size)
    plan = Plan(run_of(spec).id, spec.seed, spec.train, stream.steps_per_epoch, spec.train.batch_size)
    training = Training(plan, model.to(device).train(), processes, device)
    state = processes.first_then_others(states.load)
    if state is not None:
        training.restore(state)
    batches = stream.loader(dataset, task.collate(spec, train=True), training.step, training.total, spec.data.workers)
    lane = Lane(task, training.model, batches)
    return run_steps(training, lambda step: lane, states, resumed=state is not None, events=events)


def run_steps(
    training: Training,
    lane_of: Callable[[int], Lane],
    states: ResumeStates,
    resumed: bool,
    events: Path | None = None,
) -> Trained:
    """The loop itself: from where a training stands to the end of its schedule, shown, logged and kept.

    Args:
        training: what changes from step to step.
        lane_of: the lane whose turn a step is.
        states: where to keep states.
        resumed: whether the training goes on from a state.
        events: folder of the TensorBoard events; None keeps none.

    Raises:
        UserError: a loss or gradient is not finite.
        Stopped: the process, or another one of the job, was asked to end; a state has been kept.
    """
    plan, first, start, total = training.plan, training.processes.first, training.step, training.total
    display = Display(plan.name, total, start, plan.batch_size, events if first else None, quiet=not first)
    with display, _reproducible(training.device), stop_requests() as request:
        if resumed:
            display.note(f"goes on at step {start} of {total}")
        saved = time.monotonic()
        while training.step < total:
            stop = training.update(lane_of(training.step), lambda: request.made, display.note)
            ends = training.step == total
            row = training.log() if training.step % plan.config.log_steps == 0 or ends else None
            if stop and not ends:
                training.settle()
                training.processes.first_then_others(lambda: _keep(training, states) if first else None)
                raise Stopped(
                    f"{plan.name}: asked to end (SIGTERM) at step {training.step} of {total}; its state is kept, and "
                    "the same command goes on from there"
                )
            display.step(training.step)
            if row is not None:
                display.row(row)
                if first and (ends or time.monotonic() - saved >= plan.config.checkpoint_seconds):
                    _keep(training, states)
                    saved = time.monotonic()
    return training.result()


def _keep(training: Training, states: ResumeStates) -> None:
    states.save(training.step, training.state())


@dataclass(frozen=True)
class Plan:
    """What is fixed for a whole training.

    Attributes:
        name: how messages call it.
        seed: of the draws within its steps.
        config: lengths, rates, precision.
        steps_per_epoch: converts epochs to steps.
        batch_size: images per optimizer step (the mean, where lanes differ).
    """

    name: str
    seed: int
    config: TrainConfig
    steps_per_epoch: int
    batch_size: int


class Training:
    """Everything that changes from step to step."""

    def __init__(self, plan: Plan, model: nn.Module, processes: Processes, device: torch.device) -> None:
        self.plan, self.processes, self.device = plan, processes, device
        self._config = plan.config
        self.model = model
        self.total = total_steps(plan.config, plan.steps_per_epoch)
        self.step = 0
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._optimizer = build_optimizer(model, plan.config.optimizer, plan.batch_size)
        self._schedule = Schedule(self._optimizer, plan.config, plan.steps_per_epoch)
        self._ema = ModelEmaV3(model, decay=plan.config.ema) if plan.config.ema is not None else None
        self._rows: list[Row] = []
        self._window = _Window()
        self._seconds, self._since = 0.0, time.monotonic()
        self._largest: dict[str, int] = {}  # images of a lane that fit in the card's memory, once more did not
        if plan.config.checkpointing:
            checkpoint_blocks(model)

    def update(self, lane: Lane, asked: Callable[[], bool] = lambda: False, say: Callable[[str], None] = print) -> bool:
        """One optimizer step on the next batch of `lane`.

        Args:
            lane: whose turn it is.
            asked: whether this process has been asked to end.
            say: takes a line about memory that ran out.

        Returns:
            Whether any process of the job has been asked to end.

        Raises:
            UserError: a loss or gradient is not finite, or the card's memory does not hold what the settings ask for.
        """
        batch = next(lane.batches).to(self.device)
        rate = self._schedule.set(self.step)
        progress = self.step / max(1, self.total - 1)
        for module in lane.model.modules():
            if isinstance(module, Reducer):
                module.set_progress(progress)
                scale_parts(self._optimizer, module.rates())
        while True:
            passed = self._pass(lane, batch, progress)
            stop, full = self.processes.any_of(asked(), passed is None)
            if passed is not None and not full:
                break
            passed = None
            self._halve(lane, batch, say)
        loss, extra = passed
        self.processes.average_gradients(self._parameters)
        norm = get_total_norm([p.grad for p in self._parameters if p.grad is not None])
        values = torch.stack([loss.float(), norm.float()])
        if self.device.type == "cpu":  # costs nothing here; on a GPU it would wait for the step, so `log` does it
            self._check_finite(values[None], self.step, [lane.label])
        if self._config.optimizer.clip_grad is not None:
            clip_grads_with_norm_(self._parameters, self._config.optimizer.clip_grad, norm)
        self._optimizer.step()
        if self._ema is not None:
            self._ema.update(self.model)
        self._window.values.append(values)
        if lane.label:
            own = {"loss": values[0], "grad_norm": values[1], **extra}
            extra = {f"{lane.label}.{name}": value for name, value in own.items()}
        self._window.extras.append({"lr": rate, **extra})
        self._window.labels.append(lane.label)
        self.step += 1
        return stop

    def _pass(self, lane: Lane, batch: Batch, progress: float) -> tuple[Tensor, dict[str, Any]] | None:
        """Loss and gradients of this process's share of a batch, micro-batch by micro-batch.

        Returns:
            The loss, and what the log shows beside it; None where the card's memory ran out.
        """
        shares = split_batch(batch, self._images_at_once(lane, batch))
        self._optimizer.zero_grad(set_to_none=True)
        found: list[tuple[float, dict[str, Any]]] = []
        losses: list[Tensor] = []
        try:
            for number, share in enumerate(shares, start=self.processes.rank * len(shares)):
                # After the batch: what loading draws from the global generators must not reach the step's own draws.
                _seed_everything(derive_seed(self.plan.seed, "step", self.step, number))
                with (
                    torch.autocast(self.device.type, torch.bfloat16, enabled=self._config.precision == "bf16"),
                    kept_patches(lane.model) as kept,
                ):
                    loss, extra = lane.task.loss(lane.model, share, progress)
                weight = len(share.images) / len(batch.images)
                loss = loss * weight if len(shares) > 1 else loss
                loss.backward()
                losses.append(loss.detach())
                found.append((weight, {**extra, **kept}))
        except OutOfMemory:
            return None  # the rest after this block, which holds on to the pass that failed
        return torch.stack(losses).sum(), weighted_sums(found)

    def _images_at_once(self, lane: Lane, batch: Batch) -> int:
        size = micro_batch_of(self._config, len(batch.images))
        return min(size, self._largest.get(lane.label, size))

    def _halve(self, lane: Lane, batch: Batch, say: Callable[[str], None]) -> None:
        """Takes half as many images at once from here on, where the settings leave that to the card's memory.

        Raises:
            UserError: they do not, or a single image is too much.
        """
        self._optimizer.zero_grad(set_to_none=True)
        size = self._images_at_once(lane, batch)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if self._config.micro_batch != "auto" or size == 1:
            raise UserError(
                f"{self.plan.name}: the card's memory does not hold a pass of {size} image(s) at step {self.step}; "
                + (
                    "set train.checkpointing, or use a larger card"
                    if size == 1
                    else "set train.micro_batch to 'auto' or to fewer images, or train.checkpointing"
                )
            )
        self._largest[lane.label] = size // 2
        of = f" of task '{lane.label}'" if lane.label else ""
        say(f"out of memory with {size} images{of} at once at step {self.step}; goes on with {size // 2}")

    def log(self) -> Row:
        """Closes the window of steps since the last row: all of it must be finite, and its mean becomes a row."""
        self.settle()
        values = self._window.settled
        labels = self._window.labels
        self._check_finite(values, self.step - len(values), labels)
        loss, norm = values.double().mean(0).tolist()
        extras = self._window.extras
        row = {
            "step": float(self.step),
            "epoch": self.step / self.plan.steps_per_epoch,
            "lr": extras[-1]["lr"],
            "loss": loss,
            "grad_norm": norm,
        }
        names = dict.fromkeys(name for extra in extras for name in extra)
        row |= {name: _mean([extra[name] for extra in extras if name in extra]) for name in names if name not in row}
        row |= {f"{label}.share": labels.count(label) / len(labels) for label in sorted(set(labels)) if label}
        self._rows.append(row)
        self._window = _Window()
        return row

    def settle(self) -> None:
        """Averages what the window holds over the processes, all of which must call this; `state` keeps no other."""
        if own := self._window.values:
            new = self.processes.mean(torch.stack(own)).cpu()
            self._window.settled, self._window.values = torch.cat([self._window.settled, new]), []

    def state(self) -> dict[str, Any]:
        """What `restore` needs; the window is settled."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "ema": self._ema.module.state_dict() if self._ema is not None else None,
            "rows": self._rows,
            "window": {
                "values": self._window.settled,
                "extras": [{name: float(value) for name, value in extra.items()} for extra in self._window.extras],
                "labels": self._window.labels,
            },
            "largest": self._largest,
            "seconds": self._elapsed(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes up a training where `state` left it."""
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        if self._ema is not None:
            self._ema.module.load_state_dict(state["ema"])
        self._rows = state["rows"]
        window = state["window"]
        self._window = _Window(window["values"], [], window["extras"], window["labels"])
        self._largest = state["largest"]
        self._seconds = state["seconds"]

    def result(self) -> Trained:
        """The weights to publish, and the log."""
        model = self.model if self._ema is None else self._ema.module
        facts = {"micro_batch": self._largest} if self._largest else {}
        return Trained(model.state_dict(), self._rows, self.step, self._elapsed(), facts)

    def _elapsed(self) -> float:
        return self._seconds + time.monotonic() - self._since

    def _check_finite(self, values: Tensor, first_step: int, labels: list[str]) -> None:
        """Stops the training at the first of some consecutive steps whose (loss, gradient norm) is not finite."""
        bad = (~values.isfinite()).any(dim=1).nonzero()
        if not len(bad):
            return
        offset = int(bad[0])
        loss, norm = values[offset].tolist()
        step = first_step + offset
        what = f"loss is {loss}" if not np.isfinite(loss) else f"gradient norm is {norm}"
        of = f" of task '{labels[offset]}'" if labels[offset] else ""
        raise NotFinite(
            f"{self.plan.name}: {what}{of} at step {step} of {self.total} (learning rate "
            f"{self._schedule.set(step):.3g}); nothing was overwritten. Lower train.optimizer.lr, lengthen "
            "train.schedule.warmup, set train.optimizer.clip_grad, or set train.precision to fp32"
        )


@contextmanager
def kept_patches(model: nn.Module) -> Iterator[dict[str, float]]:
    """Counts the patches that reach the last block: `kept`, the mean over the images that pass the model's encoder."""
    kept: dict[str, float] = {}
    counts: list[int] = []
    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, SparseEncoder):
        yield kept
        return
    with encoder.register_forward_hook(lambda module, arguments, output: counts.extend(output.final_counts)):
        yield kept
    if counts:
        kept["kept"] = sum(counts) / len(counts)


def _mean(values: list[float]) -> float:
    return sum(float(value) for value in values) / len(values)


def _seed_everything(seed: int) -> None:
    """Seeds every global generator that a loss may draw from."""
    torch.manual_seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])  # noqa: NPY002  libraries draw from the global one
    random.seed(seed)


@contextmanager
def _reproducible(device: torch.device) -> Iterator[None]:
    """Has the CPU add up duplicate indices in a fixed order (with two threads it otherwise depends on their timing)."""
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.utils.deterministic.fill_uninitialized_memory = before[1]
