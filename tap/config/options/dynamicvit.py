"""Settings of DynamicViT."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tap.config.strict import Options, Share, Weight


class DynamicVitOptions(Options):
    """DynamicViT."""

    ratio_weight: Weight = Field(
        2.0, description="weight of the keep-ratio loss (public: 2; 5 for a base model with drop path 0.2)"
    )
    distill_weight: Weight = Field(0.5, description="weight of the divergence from the dense teacher's logits (public)")
    token_weight: Weight = Field(0.5, description="weight of the error of kept tokens against the teacher's (public)")
    token_loss: Literal["mse", "kl"] = Field(
        "mse", description="that error: squared, or the divergence of the softmax over channels (both public)"
    )
    predictor_lr: float = Field(
        1.0, gt=0, description="learning-rate factor of the predictors; the public recipe gives them the full rate"
    )
    backbone_lr: Weight = Field(0.01, description="learning-rate factor of backbone and head (public)")
    frozen: Share = Field(
        0.1667, description="share of the training in which only the predictors learn (public: 5 of 30 epochs)"
    )
