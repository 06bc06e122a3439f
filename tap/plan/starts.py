"""What a run trains with and what it starts from: who goes on from what, and whose encoder is random.

This decides results, so the fingerprint of the trainings covers it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from tap.config.joint import JointConfig
from tap.config.lookup import method_of
from tap.config.methods import DENSE, MAIN, PRETRAINING, RANDOM_ENCODER, WITH_REGISTER
from tap.config.schema import JobSpec, PretrainConfig, TrainConfig
from tap.config.task import TaskConfig
from tap.config.variants import JOINT_STARTS
from tap.errors import UserError
from tap.runs import Run

Start = Literal["scratch", "pretrained", "dense", "joint"]

STARTS: Final = {MAIN: "start", RANDOM_ENCODER: "random-encoder-start"}
"""Variants of no pruning that others go on from (`start_from: dense`), by the variant that goes on."""

RANDOM_ENCODERS: Final = (RANDOM_ENCODER, STARTS[RANDOM_ENCODER])
"""Variants whose encoder is random and frozen."""


def start_run(run: Run) -> Run:
    """The training of no pruning that a run goes on from where `start_from` is `dense`."""
    return replace(run, method=DENSE, rate=1.0, variant=STARTS.get(run.variant, STARTS[MAIN]))


def is_start(run: Run) -> bool:
    """Whether others go on from a run."""
    return run.method == DENSE and run.variant in STARTS.values()


def source_run(spec: JobSpec) -> Run | None:
    """The run whose weights a training starts from; None where it starts from random ones or from a given file."""
    if spec.start_from == "scratch":
        return None
    if spec.start_from == "pretrained" and spec.pretrain.trained_on is not None:
        return start_run(Run(spec.scale, spec.pretrain.trained_on, DENSE, seed=spec.seed))
    if spec.start_from in ("pretrained", "joint"):  # a joint training begins with the base
        return None if spec.pretrain.weights is not None else base_run(spec)
    return start_run(Run(spec.scale, spec.task, spec.method, spec.rate, spec.variant, spec.seed))


def base_run(spec: JobSpec) -> Run:
    """The pre-training that makes a task's backbone."""
    return Run(spec.scale, spec.pretrain.share or spec.task, PRETRAINING)


def training_of(settings: TaskConfig, run: Run, joint: JointConfig | None) -> tuple[TrainConfig | None, Start]:
    """The schedule of a run's training, and where it starts: MAE from nothing, a start from MAE, the rest from a start.

    Args:
        settings: of the run's task.
        run: the run.
        joint: schedules of joint trainings.

    Returns:
        The schedule is None where the settings have none: public weights, or another task's backbone.
    """
    if run.method == PRETRAINING:
        return settings.pretrain.train, "scratch"
    if is_start(run) or (run.method == DENSE and settings.start_from == "pretrained"):
        return settings.dense, "scratch" if run.variant in RANDOM_ENCODERS else "pretrained"
    if joint is not None and method_of(run.method).frozen:
        if joint.start is not None and run.variant in JOINT_STARTS.values():
            return joint.start.of(settings.method), "pretrained"
        return joint.train.of(settings.method), "pretrained" if joint.start is None else "joint"
    return settings.method, settings.start_from


def given_weights(pretrain: PretrainConfig, task: str) -> Path:
    """The file with pre-trained weights that the settings of a task name.

    Raises:
        UserError: it is not there, or not of the size that they state (a download that was cut off).
    """
    path, where = Path(str(pretrain.weights)).expanduser(), f"tasks.{task}.pretrain"
    if not path.is_file():
        raise UserError(
            f"{path}: there is no such file, but {where}.weights names it; put it there (docs/data.md says where it "
            "comes from), or name another"
        )
    found = path.stat().st_size
    if pretrain.size is not None and found != pretrain.size:
        raise UserError(
            f"{path}: has {found} bytes, and {where}.size says {pretrain.size}; fetch it again, or correct the size if "
            "another file is meant"
        )
    return path


def starts_from_class_token(spec: JobSpec) -> bool:
    """Whether a run has a register that begins with the class token of the pre-training's file."""
    return spec.method in WITH_REGISTER and spec.controller.register_start == "class_token"


def has_random_encoder(spec: JobSpec) -> bool:
    """Whether the encoder keeps its random weights, so that a head alone is trained: the floor of a dense task."""
    return spec.variant in RANDOM_ENCODERS
