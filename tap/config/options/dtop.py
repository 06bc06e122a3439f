"""Settings of DToP."""

from __future__ import annotations

from pydantic import Field

from tap.config.strict import Options, Share, Weight


class DtopOptions(Options):
    """DToP."""

    layers: tuple[int, ...] = Field(
        (6, 8), min_length=1, description="blocks after which confident patches exit (public: ViT-B)"
    )
    kept_per_class: int = Field(5, ge=1, description="most confident patches of each class that stay (public)")
    threshold: Share = Field(0.9, description="confidence of an exit until calibration finds the one for K (public)")
    channels: int | None = Field(
        None, ge=1, description="width of the auxiliary heads; null (default) is half the model's (public: 384 of 768)"
    )
    heads: int = Field(6, ge=1, description="attention heads of the auxiliary heads (public)")
    decoder_layers: int = Field(3, ge=1, description="decoder layers of the auxiliary heads (public)")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout in the auxiliary heads (public)")
    presence_weight: Weight = Field(1.0, description="weight of the loss of which classes are there (public)")
    mask_weight: Weight = Field(20.0, description="weight of the focal loss of the masks (public)")
    dice_weight: Weight = Field(1.0, description="weight of the Dice loss of the masks (public)")
    pruned_from: Share = Field(
        0.5, description="share of the training after which patches exit there too (public: a training of its own)"
    )

    def misfit(self, width: int) -> str | None:
        """The auxiliary heads must split their channels evenly."""
        channels = self.channels or width // 2
        if channels % self.heads:
            return f"{channels} channels of the auxiliary heads are not a multiple of heads {self.heads}"
        return None
