"""Settings of Evo-ViT."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tap.config.strict import Options, Share


class EvoVitOptions(Options):
    """Evo-ViT."""

    first_block: int = Field(5, ge=2, description="block from which on half of the patches are fast (public: DeiT)")
    chosen_again: tuple[int, ...] = Field((9,), description="blocks at which the choice is made anew (public: DeiT)")
    momentum: Share = Field(0.5, description="share of the older attention in the running score (public)")
    readout: Literal["mean", "class"] = Field(
        "mean", description="what the classifier reads: the mean of all patches (public), or the class token"
    )
    class_weight: Share = Field(
        0.5, description="share of the loss that is the second head's, on the class token, in training (public)"
    )

    @model_validator(mode="after")
    def _ordered(self) -> EvoVitOptions:
        blocks = (self.first_block, *self.chosen_again)
        if list(blocks) != sorted(set(blocks)):
            raise ValueError(f"chosen_again must be increasing block numbers behind first_block {self.first_block}")
        return self
