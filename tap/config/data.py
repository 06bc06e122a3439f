"""Where a task's images come from."""

from __future__ import annotations

from pydantic import Field, model_validator

from tap.config.strict import Strict
from tap.config.values import DatasetName


class DataConfig(Strict):
    """Where the images of one task come from and how they are cut into splits."""

    name: DatasetName = Field(description="dataset")
    root: str = Field(description="folder of the prepared (desk, smoke) or the user's own (paper) data")
    num_classes: int = Field(
        ge=1, description="outputs of the task's head: its classes (background included for seg), or 1 for a number"
    )
    mean: tuple[float, ...] = Field(description="per-channel mean of pixels scaled to [0, 1]")
    std: tuple[float, ...] = Field(description="per-channel standard deviation of pixels scaled to [0, 1]")
    calibration: int = Field(ge=0, description="training images set aside for calibration (endpoints, thresholds)")
    limit_calibration: int | None = Field(
        None, ge=1, description="use only this many of them to find the thresholds of methods whose count varies"
    )
    limit_train: int | None = Field(None, ge=1, description="use only this many training images (smoke)")
    limit_val: int | None = Field(None, ge=1, description="use only this many evaluation images (smoke)")
    subset: tuple[int, int] | None = Field(
        None,
        description="training and evaluation images that the folder holds, where it is a stated part of the data set "
        "(a trial); null expects all of them",
    )
    workers: int = Field(0, ge=0, description="data-loading processes of a job; 0 loads in the job itself")

    @model_validator(mode="after")
    def _one_value_per_channel(self) -> DataConfig:
        if len(self.mean) != len(self.std):
            raise ValueError(f"mean has {len(self.mean)} channels and std has {len(self.std)}; give one value each")
        if self.subset is not None and min(self.subset) < 1:
            raise ValueError(f"subset must be two numbers of images above 0, got {list(self.subset)}")
        if min(self.std, default=1.0) <= 0:
            raise ValueError(f"std must be above 0 in every channel, got {list(self.std)}")
        return self
