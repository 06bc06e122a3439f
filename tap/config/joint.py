"""TAP-F: a training of several tasks in turn, on one frozen base."""

from __future__ import annotations

from pydantic import Field, model_validator

from tap.config.schema import TrainConfig, Training
from tap.config.strict import Strict
from tap.config.values import check_distinct


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
