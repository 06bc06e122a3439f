"""What trainings start from and share: the pre-training of a backbone, and a frozen base with all tasks (TAP-F)."""

from __future__ import annotations

from pydantic import Field, model_validator

from tap.config.strict import Strict
from tap.config.training import AugmentConfig, TrainConfig, Training
from tap.config.values import TaskName, check_distinct


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


class JointTrainConfig(Training):
    """A training of several tasks in turn; batches and augmentation are those of each task's `method`."""

    steps: int = Field(ge=1, description="optimizer steps over all tasks, one of which is drawn uniformly at each")

    @model_validator(mode="after")
    def _schedule_is_inside(self) -> JointTrainConfig:
        self.check_schedule(self.steps, "steps")
        return self

    def of(self, own: TrainConfig) -> TrainConfig:
        """As one of the tasks sees it, whose own training gives batches and augmentation."""
        shared = {name: getattr(self, name) for name in Training.model_fields}
        return TrainConfig(length=self.steps, unit="steps", batch_size=own.batch_size, augment=own.augment, **shared)


class JointConfig(Strict):
    """TAP-F: all tasks that list it are trained together, on one frozen base (Sec. TAP-J and TAP-F ownership)."""

    start: JointTrainConfig | None = Field(
        None,
        description="a training at keep rate 1, one per seed and ownership of the updates, from which all variants go "
        "on; null trains each from the pre-trained base",
    )
    train: JointTrainConfig = Field(description="training of every keep rate and variant: one budget for all")
    processes: int | None = Field(None, ge=1, description="GPUs of one joint training; null takes the scale's")
    seeds: tuple[int, ...] | None = Field(
        None, description="joint seeds, of which a task uses those that its `seeds` name, too; null takes all of these"
    )

    @model_validator(mode="after")
    def _distinct(self) -> JointConfig:
        check_distinct("seeds", self.seeds or ())
        return self
