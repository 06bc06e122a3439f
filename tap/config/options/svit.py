"""Settings of SViT."""

from __future__ import annotations

from pydantic import Field

from tap.config.strict import Options, Share, Weight


class SvitOptions(Options):
    """SViT."""

    layers: tuple[int, ...] | None = Field(
        None, description="blocks with a gate, from 1; null (default) is 4 and all later ones (public)"
    )
    ratios: tuple[Share, ...] | None = Field(
        None,
        description="share of tokens that each of these blocks is to get; null (default) falls in thirds of the blocks "
        "to the keep rate, as in public code (.7, .49, .343)",
    )
    ratio_weight: Weight = Field(4.0, description="weight of (mean share of tokens - keep rate)^2 (public)")
    tau: float = Field(1.0, gt=0, description="temperature of the gates in training (public)")
