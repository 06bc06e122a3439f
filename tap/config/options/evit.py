"""Settings of EViT."""

from __future__ import annotations

from pydantic import Field, model_validator

from tap.config.strict import Options, Share


class EvitOptions(Options):
    """EViT."""

    fuse: bool = Field(True, description="fuse the removed tokens into one (public default)")
    counts: tuple[int, ...] | None = Field(
        None,
        description="tokens to keep at each pruning block; null (default) keeps the same share at each, and K last",
    )
    stage_rate: float | None = Field(
        None,
        gt=0,
        le=1,
        description="instead of counts: share of the present tokens to keep at each pruning block, rounded up (public)",
    )
    warmup_start: Share = Field(0.0, description="share of the training at which the keep rate begins to fall from 1")
    warmup_end: Share = Field(
        0.0, description="share of the training at which it has fallen; 0 is at once, as in the public fine-tuning"
    )

    @model_validator(mode="after")
    def _ordered(self) -> EvitOptions:
        if self.warmup_end < self.warmup_start:
            raise ValueError(f"warmup_end {self.warmup_end} lies before warmup_start {self.warmup_start}")
        return self
