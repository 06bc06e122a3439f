"""Settings of Token Cropr."""

from __future__ import annotations

from pydantic import Field

from tap.config.strict import Options, Share, Weight


class CroprOptions(Options):
    """Token Cropr."""

    layers: tuple[int, ...] | None = Field(
        None, description="blocks after which patches leave, from 1; null (default) takes controller.layers"
    )
    warmup: Share | None = Field(
        None,
        description="share of the training over which removals rise to their final number; null (default) is 0 for cls "
        "and 0.5 for dense tasks, as in public code",
    )
    mlp: bool = Field(True, description="MLP in the auxiliary heads (public)")
    projections: bool = Field(False, description="learned projections and norm in the attention (public variant)")
    heads: int = Field(1, ge=1, description="heads of that attention (public)")
    weight: Weight = Field(1.0, description="weight of the loss of each auxiliary head (public)")
    last_layer_fusion: bool = Field(True, description="pruned patches re-join before the last block (public)")
