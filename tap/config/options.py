"""Settings of single published methods: one model per method, whose defaults are the public recipe.

Lengths of phases are shares of the training, so that they fit every budget (public recipes count epochs of trainings of
30 to 300). Learning rates are factors of the task's own rate.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tap.config.strict import Strict

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0)]


class EvitOptions(Strict):
    """EViT."""

    fuse: bool = Field(True, description="fuse the removed tokens into one (public default)")
    warmup_start: Share = Field(0.0, description="share of the training at which the keep rate begins to fall from 1")
    warmup_end: Share = Field(
        0.0, description="share of the training at which it has fallen; 0 is at once, as in the public fine-tuning"
    )

    @model_validator(mode="after")
    def _ordered(self) -> EvitOptions:
        if self.warmup_end < self.warmup_start:
            raise ValueError(f"warmup_end {self.warmup_end} lies before warmup_start {self.warmup_start}")
        return self


class DynamicVitOptions(Strict):
    """DynamicViT."""

    ratio_weight: Weight = Field(
        2.0, description="weight of the keep-ratio loss (public: 2; 5 for a base model with drop path 0.2)"
    )
    distill_weight: Weight = Field(0.5, description="weight of the divergence from the dense teacher's logits (public)")
    token_weight: Weight = Field(0.5, description="weight of the error of kept tokens against the teacher's (public)")
    predictor_lr: float = Field(
        1.0, gt=0, description="learning-rate factor of the predictors; the public recipe gives them the full rate"
    )
    backbone_lr: Weight = Field(0.01, description="learning-rate factor of backbone and head (public)")
    frozen: Share = Field(
        0.1667, description="share of the training in which only the predictors learn (public: 5 of 30 epochs)"
    )


class EvoVitOptions(Strict):
    """Evo-ViT."""

    first_block: int = Field(5, ge=2, description="block from which on half of the patches are fast (public: DeiT)")
    chosen_again: tuple[int, ...] = Field((9,), description="blocks at which the choice is made anew (public: DeiT)")
    momentum: Share = Field(0.5, description="share of the older attention in the running score (public)")
    readout: Literal["mean", "class"] = Field(
        "mean", description="what the classifier reads: the mean of all patches (public), or the class token"
    )
    class_weight: Weight = Field(
        1.0, description="weight of the loss of the second head, on the class token, in training (public)"
    )

    @model_validator(mode="after")
    def _ordered(self) -> EvoVitOptions:
        blocks = (self.first_block, *self.chosen_again)
        if list(blocks) != sorted(set(blocks)):
            raise ValueError(f"chosen_again must be increasing block numbers behind first_block {self.first_block}")
        return self


class CroprOptions(Strict):
    """Token Cropr."""

    layers: tuple[int, ...] | None = Field(
        None, description="blocks after which patches leave, from 1; null (default) takes controller.layers"
    )
    mlp: bool = Field(True, description="MLP in the auxiliary heads (public)")
    weight: Weight = Field(1.0, description="weight of the loss of each auxiliary head (public)")
    last_layer_fusion: bool = Field(True, description="pruned patches re-join before the last block (public)")


class DtopOptions(Strict):
    """DToP."""

    layers: tuple[int, ...] = Field((6, 8), description="blocks after which confident patches exit (public: ViT-B)")
    kept_per_class: int = Field(5, ge=0, description="most confident patches of each class that stay (public)")
    weight: Weight = Field(1.0, description="weight of the loss of each auxiliary head")
    pruned_from: Share = Field(
        0.5,
        description="share of the training after which patches exit there too (public: a training of its own)",
    )
    threshold: Share = Field(0.95, description="confidence of an exit until calibration finds the one for K (public)")


class SvitOptions(Strict):
    """SViT."""

    first_block: int = Field(4, ge=1, description="first block with a gate (public)")
    ratio_weight: Weight = Field(4.0, description="weight of (mean share of tokens - keep rate)^2 (public)")
    tau: float = Field(1.0, gt=0, description="temperature of the gates in training (public)")


class MethodOptions(Strict):
    """Settings of single methods; what is not named keeps the public recipe."""

    evit: EvitOptions | None = None
    dynamicvit: DynamicVitOptions | None = None
    evovit: EvoVitOptions | None = None
    cropr: CroprOptions | None = None
    dtop: DtopOptions | None = None
    svit: SvitOptions | None = None

    def of(self, method: str) -> Strict | None:
        """The options of a method, the public recipe where nothing is set; None for a method without any."""
        if method not in OPTIONS:
            return None
        return getattr(self, method) or OPTIONS[method]()

    def only(self, method: str) -> MethodOptions | None:
        """The resolved options of one method alone: what a job of it reads. None for a method without any."""
        options = self.of(method)
        return None if options is None else MethodOptions.model_validate({method: options})


OPTIONS: dict[str, type[Strict]] = {
    "evit": EvitOptions,
    "dynamicvit": DynamicVitOptions,
    "evovit": EvoVitOptions,
    "cropr": CroprOptions,
    "dtop": DtopOptions,
    "svit": SvitOptions,
}
"""The options of each method that has any, by name."""
