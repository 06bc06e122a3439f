"""Training on the data of several tasks in turn (Sec. TAP-J and TAP-F ownership).

At each step one task is drawn uniformly, as a function of the sampler's seed and the step alone. Its view of the model
makes the pass on the next batch of its own stream, and one AdamW moves what that pass gave a gradient: modules of the
other tasks see neither decay nor moments. So TAP-F trains its tasks on one frozen base; and where all views are the
same model, as in a pre-training over the images of several tasks, they share every update. As in the training of one
task, the weights, the optimizer's state and the step are all that a killed training needs to end with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tap.config.schema import JobSpec, TrainConfig
from tap.encoder.low_rank import is_low_rank
from tap.encoder.weights import backbone_tensors, class_token_in, class_token_of, load_backbone
from tap.engine.distributed import Processes
from tap.engine.loop import Lane, Plan, Trained, Training, run_steps
from tap.engine.resume import ResumeStates
from tap.engine.streams import Stream
from tap.errors import UserError
from tap.plan.runs import run_of
from tap.plan.starts import starts_from_class_token
from tap.seeds import derive_seed
from tap.tasks.base import Task
from tap.tasks.joint import JointModel, Ownership
from tap.tasks.registry import get_task


@dataclass(frozen=True)
class Member:
    """One task of a joint training.

    Attributes:
        task: gives data and loss.
        spec: its settings; of `train`, batch size and augmentation are the task's own.
    """

    task: Task
    spec: JobSpec


def build_joint(
    members: Mapping[str, Member],
    weights: Path | None,
    sha256: str | None = None,
    register: Ownership = "own",
    adapters: Ownership = "own",
) -> JointModel:
    """The views of all tasks, as their pipelines build them, on one base.

    Args:
        members: the tasks; the method of each has low-rank updates.
        weights: file with the pre-trained backbone; None takes the random one of the first task.
        sha256: hash that the file must have; None accepts any.
        register, adapters: what the tasks own and what they share (tab:factorial).

    Raises:
        UserError: the file is missing, damaged or of another architecture; the tasks' backbones do not fit together.
    """
    views: dict[str, Any] = {task: member.task.build_model(member.spec) for task, member in members.items()}
    if weights is None:
        first, *others = [view.encoder.vit for view in views.values()]
        given = {name: value for name, value in first.state_dict().items() if not is_low_rank(name)}
        for vit in others:
            own = vit.state_dict()
            vit.load_state_dict({n: v for n, v in given.items() if n in own and own[n].shape == v.shape}, strict=False)
        with_token = next((view.encoder.vit for view in views.values() if view.encoder.vit.has_class_token), first)
        _start_registers(members, views, lambda: class_token_of(with_token))
        return JointModel(views, None, register, adapters)
    for view in views.values():
        load_backbone(view.encoder.vit, weights, sha256, pretrained_only=True)
    _start_registers(members, views, lambda: class_token_in(weights, sha256))
    base = {name: tuple(value.shape) for name, value in backbone_tensors(weights, sha256).items()}
    return JointModel(views, base, register, adapters)


def _start_registers(
    members: Mapping[str, Member], views: Mapping[str, Any], class_token: Callable[[], Tensor]
) -> None:
    """Lets the registers begin with the base's class token where the settings of their tasks say so."""
    for task, member in members.items():
        if starts_from_class_token(member.spec):
            views[task].encoder.reducer.controller.start_from(class_token())


def task_of_step(tasks: Sequence[str], sampler_seed: int, step: int) -> str:
    """The task that a step trains, each with the same probability.

    Args:
        tasks: names, in a fixed order.
        sampler_seed: seed of the draws.
        step: from 0.
    """
    return tasks[derive_seed(sampler_seed, "task of the step", step) % len(tasks)]


def task_counts(tasks: Sequence[str], sampler_seed: int, steps: int) -> dict[str, int]:
    """How many of the first `steps` steps each task has."""
    drawn = [task_of_step(tasks, sampler_seed, step) for step in range(steps)]
    return {task: drawn.count(task) for task in tasks}


def train_joint(
    name: str,
    members: Mapping[str, Member],
    model: nn.Module,
    views: Mapping[str, nn.Module],
    config: TrainConfig,
    seed: int,
    sampler_seed: int,
    states: ResumeStates,
    processes: Processes,
    device: torch.device,
    events: Path | None = None,
) -> Trained:
    """Trains all tasks from the newest resume state, or from the weights that the model has.

    Args:
        name: how messages call the training.
        members: the tasks by name, in a fixed order.
        model: everything that is trained.
        views: what each task's loss runs; parts of `model`.
        config: length in steps, rates and schedule of the whole training.
        seed: of the optimization: draws within steps, order of the samples.
        sampler_seed: of the choice of tasks.
        states: where to resume from and where to keep states.
        processes: this process among those of the job; all of them train the same task in a step.
        device: where to compute.
        events: folder of the TensorBoard events; None keeps none.

    Raises:
        UserError: settings that a joint training does not have; a task without data or with fewer images than its
            batch; a loss or gradient that is not finite, with the task and the step.
    """
    if config.unit != "steps":
        raise UserError("joint.train.unit: several data sets have no common epoch; give the length in steps")
    if config.ema is not None:
        raise UserError("joint.train.ema: an average would drift for the tasks that rest; leave it out")
    tasks = tuple(members)
    if len(tasks) < 2:
        raise UserError(f"tasks: several are trained in turn, got {', '.join(tasks) or 'none'}")
    data = {task: member.task.datasets(member.spec).train for task, member in members.items()}
    for task, images in data.items():
        if not len(images):
            raise UserError(f"tasks.{task}: has no training image, so no step can train it; prepare its data")
    streams = {
        task: Stream(
            len(data[task]),
            member.spec.train.batch_size,
            derive_seed(seed, "stream", task),
            processes.rank,
            processes.world_size,
        )
        for task, member in members.items()
    }
    mean = round(sum(stream.batch_size for stream in streams.values()) / len(streams))
    training = Training(Plan(name, seed, config, 1, mean), model.to(device).train(), processes, device)
    state = processes.first_then_others(states.load)
    if state is not None:
        training.restore(state)
    done = task_counts(tasks, sampler_seed, training.step)
    whole = task_counts(tasks, sampler_seed, training.total)
    lanes = {
        task: Lane(
            member.task,
            views[task],
            streams[task].loader(
                data[task],
                member.task.collate(member.spec, train=True),
                done[task],
                whole[task],
                member.spec.data.workers,
            ),
            label=task,
        )
        for task, member in members.items()
    }
    trained = run_steps(
        training,
        lambda step: lanes[task_of_step(tasks, sampler_seed, step)],
        states,
        resumed=state is not None,
        events=events,
    )
    trained.facts |= {"sampler_seed": sampler_seed, "optimization_seed": seed, "task_counts": whole}
    return trained


def train_mixed(
    spec: JobSpec,
    task: Task,
    model: nn.Module,
    states: ResumeStates,
    processes: Processes,
    device: torch.device,
    events: Path | None = None,
) -> Trained:
    """Pre-trains one model on the images of several tasks (`pretrain.mix`); arguments and errors as `train`."""
    members = {spec.task: Member(task, spec)}
    for name, other in (spec.mixed or {}).items():
        train = spec.train.model_copy(update={"batch_size": other.batch_size, "augment": other.augment})
        data = other.data.model_copy(update={"workers": spec.data.workers})
        own = spec.model_copy(update={"task": name, "data": data, "model": other.model, "train": train, "mixed": None})
        members[name] = Member(get_task(own), own)
    views = dict.fromkeys(members, model)
    sampler = derive_seed(spec.seed, "tasks of the pre-training")
    return train_joint(
        run_of(spec).id, members, model, views, spec.train, spec.seed, sampler, states, processes, device, events
    )
