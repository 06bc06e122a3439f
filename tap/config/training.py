"""How something is trained: optimizer, schedule, augmentation, length."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tap.config.strict import Strict
from tap.config.values import Factors


class OptimizerConfig(Strict):
    """AdamW with layer-wise learning-rate decay."""

    lr: float = Field(gt=0, description="base learning rate")
    lr_reference_batch: int | None = Field(
        None, ge=1, description="scale lr by batch_size / this; null takes lr as it is"
    )
    weight_decay: float = Field(0.05, ge=0, description="decoupled weight decay (not for biases, norms, tokens)")
    beta1: float = Field(0.9, ge=0, lt=1, description="decay of the mean gradient")
    beta2: float = Field(0.999, ge=0, lt=1, description="decay of the mean squared gradient")
    eps: float = Field(1e-8, gt=0, description="added to the denominator of the update")
    layer_decay: float = Field(1.0, gt=0, le=1, description="factor per block from the head down; 1 switches it off")
    controller_lr_scale: float = Field(1.0, gt=0, description="learning-rate factor of register and readouts")
    clip_grad: float | None = Field(None, gt=0, description="largest global gradient norm; null switches clipping off")


class ScheduleConfig(Strict):
    """Learning rate over steps; warm-up is linear from zero."""

    kind: Literal["cosine", "poly", "step"] = Field("cosine", description="shape after the warm-up")
    warmup: float = Field(0.0, ge=0, description="length of the warm-up in the unit of the training length")
    final_lr: float = Field(0.0, ge=0, description="learning rate at the end, as a share of the base learning rate")
    power: float = Field(1.0, gt=0, description="exponent of the polynomial schedule")
    milestones: tuple[float, ...] = Field(
        (), description="where a step schedule drops, in the unit of the training length"
    )
    gamma: float = Field(0.1, gt=0, le=1, description="factor of each drop")

    @model_validator(mode="after")
    def _milestones_rise(self) -> ScheduleConfig:
        if list(self.milestones) != sorted(set(self.milestones)) or min(self.milestones, default=1.0) <= 0:
            raise ValueError(f"milestones must be increasing and above 0, got {list(self.milestones)}")
        return self


class AugmentConfig(Strict):
    """Training augmentation; what a task does not use stays at its neutral default."""

    crop_scale: Factors = Field((1.0, 1.0), description="area range of the random resized crop (cls)")
    hflip: float = Field(0.0, ge=0, le=1, description="probability of a horizontal flip")
    rand_augment: str | None = Field(None, description="timm RandAugment string, such as rand-m9-mstd0.5-inc1")
    mixup: float = Field(0.0, ge=0, description="Mixup alpha")
    cutmix: float = Field(0.0, ge=0, description="CutMix alpha")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target spread over all classes (cls)")
    random_erasing: float = Field(0.0, ge=0, le=1, description="probability of random erasing")
    scale_range: Factors = Field((1.0, 1.0), description="resize range before the crop (seg, det)")
    photometric: bool = Field(False, description="brightness, contrast, saturation and hue jitter (seg)")


MicroBatch = Annotated[
    Annotated[int, Field(ge=1)] | Literal["auto"] | None,
    Field(
        description="images that a process passes at once, whose gradients add up to those of its batch; auto halves "
        "them when a GPU's memory runs out; null (default) passes all of its batch"
    ),
]


Checkpointing = Annotated[
    bool | None,
    Field(description="compute activations again in the backward pass instead of keeping them; null is off"),
]


class Training(Strict):
    """What every training has: how fast, in which precision, how often it says something."""

    optimizer: OptimizerConfig
    schedule: ScheduleConfig = Field(
        ScheduleConfig(), description="warm-up and milestones in the unit of the training's length"
    )
    precision: Literal["fp32", "bf16"] = Field("fp32", description="bf16 uses autocast")
    threads: int = Field(1, ge=1, description="CPU threads of the training; another number gives other last digits")
    checkpoint_seconds: float = Field(60.0, gt=0, description="time between resume points")
    log_steps: int = Field(10, ge=1, description="steps between log lines")
    micro_batch: MicroBatch = None
    checkpointing: Checkpointing = None

    def check_schedule(self, length: float, unit: str) -> None:
        """Refuses a schedule that is not inside a training of some length.

        Raises:
            ValueError: names what is outside.
        """
        schedule = self.schedule
        if schedule.warmup >= length:
            raise ValueError(f"schedule.warmup {schedule.warmup:g} fills the whole training of {length:g} {unit}")
        drops, end = list(schedule.milestones), length
        if unit == "steps":  # as they will be rounded
            drops, end = [math.floor(drop + 0.5) for drop in drops], math.floor(end + 0.5)
        if schedule.kind == "step" and not (drops and drops == sorted(set(drops)) and drops[-1] < end):
            raise ValueError(
                f"schedule.milestones {list(schedule.milestones)} must name {unit} inside a training of {length:g}"
            )


class TrainConfig(Training):
    """One training: how long, how fast, on what."""

    length: float = Field(gt=0, description="length of the training, in `unit`")
    unit: Literal["epochs", "steps"] = Field("epochs", description="unit of length, warm-up and milestones")
    batch_size: int = Field(ge=1, description="images per optimizer step, over all processes")
    augment: AugmentConfig = AugmentConfig()
    ema: float | None = Field(None, gt=0, lt=1, description="decay of the weight average; null (default) is off")

    @model_validator(mode="after")
    def _schedule_is_inside(self) -> TrainConfig:
        self.check_schedule(self.length, self.unit)
        return self


class Length(Strict):
    """Another length of a task's trainings, with the places of its schedule that depend on it."""

    length: float = Field(gt=0, description="length of the training, in the unit of the task's trainings")
    milestones: tuple[float, ...] | None = Field(
        None, description="where a step schedule drops; null keeps those that there are"
    )
