"""The settings of one job (`JobSpec`), and how it is trained: start, length, optimizer, schedule, augmentation.

A field that may be null has null as its default, so that adding one changes no job that leaves it alone.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tap.config.data import DataConfig
from tap.config.measuring import EvalConfig
from tap.config.model import ModelConfig
from tap.config.options import MethodOptions
from tap.config.register import ControllerConfig, RecoveryConfig
from tap.config.strict import Strict
from tap.config.values import Factors, KeepRate, Scale, TaskName


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


class MixConfig(Strict):
    """How the images of another task take part in a pre-training."""

    batch_size: int = Field(ge=1, description="images per step that is this task's, over all processes")
    augment: AugmentConfig = AugmentConfig()


class PretrainConfig(Strict):
    """MAE pre-training of the desk backbone, or a file with public weights at paper scale."""

    weights: str | None = Field(
        None, description="MAE checkpoint (safetensors, or a tensor-only .pth); null pre-trains here"
    )
    share: TaskName | None = Field(None, description="task whose pre-trained backbone is used; null has its own")
    trained_on: TaskName | None = Field(
        None,
        description="task whose start without pruning, of the same seed, gives the backbone that this task's own start "
        "begins with; null is the pre-training's. A frozen base that tasks share (TAP-F) is the pre-training's anyway",
    )
    sha256: str | None = Field(
        None,
        pattern="^[0-9a-fA-F]{64}$",
        description="expected sha256 of that file; null accepts any pre-training's and records it",
    )
    size: int | None = Field(None, ge=1, description="expected size of that file in bytes; null accepts any")
    mask_ratio: float = Field(0.75, gt=0, lt=1, description="share of patches hidden from the encoder")
    decoder_width: int = Field(512, ge=8, description="token dimension of the decoder")
    decoder_depth: int = Field(8, ge=1, description="blocks of the decoder")
    decoder_heads: int = Field(16, ge=1, description="attention heads of the decoder")
    train: TrainConfig | None = Field(
        None, description="schedule of the pre-training, where neither `weights` nor `share` is given"
    )
    mix: dict[TaskName, MixConfig] | None = Field(
        None,
        description="other tasks whose images it sees as well: at each step one of all these tasks is drawn, "
        "uniformly; null sees the images of its own task alone",
    )

    @model_validator(mode="after")
    def _one_source(self) -> PretrainConfig:
        if self.weights is None and self.train is None and self.share is None:
            raise ValueError("give `weights` (a file), `train` (a schedule) or `share` (another task's backbone)")
        if self.share is not None and (self.weights is not None or self.train is not None):
            raise ValueError("`share` takes another task's backbone, so neither `weights` nor `train` can be given")
        if self.trained_on is not None and self.weights is not None:
            raise ValueError("`trained_on` begins with a backbone that is trained here, so `weights` cannot be given")
        if self.mix is not None and (self.train is None or self.train.unit != "steps" or self.train.ema is not None):
            raise ValueError("`mix` needs `train`, in steps (data sets have no common epoch) and without `ema`")
        return self


class ChosenConfig(Strict):
    """Values of a method's own in the place of those that all methods share; the budget is the same for all."""

    controller: dict[str, Any] = Field({}, description="settings of the register, as `controller` names them")
    optimizer: dict[str, Any] = Field({}, description="settings of the optimizer, as `method.optimizer` names them")

    @property
    def changes(self) -> dict[str, Any]:
        """The values by the dotted names of `JobSpec`."""
        parts = {"controller": self.controller, "train.optimizer": self.optimizer}
        return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


class MixedImages(Strict):
    """The images of another task in a pre-training, with everything that decides them."""

    data: DataConfig
    model: ModelConfig
    batch_size: int = Field(ge=1, description="images per step that is this task's, over all processes")
    augment: AugmentConfig


class JobSpec(Strict):
    """All settings of one training or evaluation: what a workflow rule hands to `tap`, and what `run.json` keeps."""

    scale: Scale
    task: TaskName
    method: str
    rate: KeepRate
    variant: str
    seed: int
    device: Literal["auto", "cpu", "cuda"]
    data: DataConfig
    model: ModelConfig
    pretrain: PretrainConfig
    mixed: dict[TaskName, MixedImages] | None = None
    start_from: Literal["scratch", "pretrained", "dense", "joint"]
    controller: ControllerConfig
    static_split: tuple[float, ...]
    train: TrainConfig
    options: MethodOptions | None = None
    recovery: RecoveryConfig = RecoveryConfig()
    eval: EvalConfig
