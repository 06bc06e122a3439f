"""Settings of DiffRate."""

from __future__ import annotations

from pydantic import Field, model_validator

from tap.config.strict import Options, Share, Weight


class DiffRateOptions(Options):
    """DiffRate."""

    candidates: int = Field(49, ge=2, description="candidate counts of each decision (public: every 4th of 196)")
    search: Share = Field(
        0.1, description="share of the training in which only the counts are searched (public: 3 epochs)"
    )
    search_lr: float = Field(20.0, gt=0, description="learning-rate factor of the search (public: 0.01)")
    flops_weight: Weight = Field(5.0, description="weight of (GMAC - target)^2 in the search (public)")
    prune_counts: tuple[int, ...] | None = Field(
        None, description="patches left by pruning in each block, instead of a search; null (default) searches"
    )
    merge_counts: tuple[int, ...] | None = Field(
        None, description="patches left by merging in each block, instead of a search; null (default) searches"
    )

    @model_validator(mode="after")
    def _both(self) -> DiffRateOptions:
        if (self.prune_counts is None) != (self.merge_counts is None):
            raise ValueError("prune_counts and merge_counts are given together or not at all")
        return self
