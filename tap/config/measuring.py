"""What is measured of a checkpoint: evaluation, profiles, probes, controls."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tap.config.methods import CRITERIA
from tap.config.strict import Strict
from tap.config.values import KeepRate, check_blocks, check_distinct


class EvalConfig(Strict):
    """Evaluation of a checkpoint."""

    batch_size: int = Field(ge=1, description="images per pass")
    inference: Literal["whole", "slide"] = Field(
        "whole", description="seg: one pass over the image, or sliding windows of model.image_size"
    )
    stride: int | None = Field(
        None, ge=1, description="seg: pixels from one window to the next; null takes two thirds of a window"
    )
    threads: int = Field(2, ge=1, description="CPU threads; another number gives other last digits")
    small_side: float = Field(
        32.0, gt=0, description="det: an object is small, for its coverage, below the square of this many pixels"
    )
    register_images: int | None = Field(
        None, ge=1, description="validation images on which a register is held against others; null takes all"
    )


class ProfileConfig(Strict):
    """How the scale's own models are timed beside the dense encoder; read by `tap profile` alone (Sec. Profiling)."""

    batch_size: int = Field(ge=1, description="images per pass")
    warmup: int = Field(100, ge=1, description="warm-up iterations")
    iterations: int = Field(500, ge=1, description="measured iterations of each side, alternating")
    dtype: Literal["fp32", "bf16"] = Field("bf16", description="precision of the measured passes")
    threads: int = Field(2, ge=1, description="CPU threads (ignored on a GPU)")


class ProbeConfig(Strict):
    """Controlled probes: one block of a no-pruning checkpoint pruned, nothing trained (Sec. Controlled-Probe Study)."""

    keep_rate: KeepRate = Field(0.5, description="share of the patches that the probed block keeps")
    criteria: tuple[str, ...] | None = Field(None, description="criteria of the layer probe; null takes all eleven")
    layers: tuple[int, ...] | None = Field(
        None, description="blocks to probe, counted from 1; null takes every one that attends globally"
    )
    images: int | None = Field(None, ge=1, description="use only this many validation images; null takes all")

    @model_validator(mode="after")
    def _known(self) -> ProbeConfig:
        unknown = [name for name in self.criteria or () if name not in CRITERIA]
        if unknown:
            raise ValueError(f"criteria: '{unknown[0]}' is not known; choose from {', '.join(CRITERIA)}")
        check_distinct("criteria", self.criteria or ())
        check_blocks("layers", self.layers or ())
        for name, values in (("criteria", self.criteria), ("layers", self.layers)):
            if values is not None and not values:
                raise ValueError(f"{name} is empty; null takes all")
        return self


class ControlConfig(Strict):
    """Controls of trained TAP checkpoints: other allocations, matching rules and recovery scales, nothing trained."""

    images: int | None = Field(None, ge=1, description="use only this many validation images; null takes all")
    calibration_images: int | None = Field(
        None, ge=1, description="images behind the task's mean allocation and recovery; null takes all"
    )
    oracle_images: int | None = Field(
        None, ge=1, description="calibration images on which the oracle tries every split; null takes all"
    )
    oracle_step: Literal[5, 10, 20, 25, 50] = Field(5, description="percent between the splits that the oracle tries")
    choice_images: int | None = Field(
        None, ge=1, description="validation images on which each group of patches is left out in turn; null takes all"
    )
    choice_side: int = Field(
        4, ge=2, description="groups of patches in each direction of the grid that are left out in turn"
    )
