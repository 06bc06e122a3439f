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


class AtsOptions(Strict):
    """ATS."""

    first_block: int = Field(4, ge=1, description="first block that samples (public)")
    last_block: int | None = Field(
        None, ge=1, description="last block that samples; null (default) is the last but one, so that its count is K"
    )
    most: int | None = Field(
        None, ge=1, description="most patches that a block may keep; null (default) lets the samples alone decide"
    )
    threshold: float = Field(
        1.0, gt=0, description="samples of a block as a share of the image's patches, until calibrated (public: 1)"
    )


class TomeOptions(Strict):
    """ToMe."""

    removals: tuple[int, ...] | None = Field(
        None,
        description="tokens to merge in each block, from the first; null (default) is the same number in every block "
        "but the last, so that K patches reach it (public: one number for all blocks)",
    )
    proportional: bool = Field(
        False,
        description="add the logarithm of a token's size to its logits (public: off for MAE backbones and in training)",
    )


class DiffRateOptions(Strict):
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


class AlgmOptions(Strict):
    """ALGM."""

    local_block: int = Field(1, ge=1, description="block that merges windows of 2 x 2 patches (public)")
    global_blocks: tuple[int, ...] = Field((5,), description="blocks that merge pairs from the whole image (public)")
    threshold: float = Field(
        0.94, ge=-1, description="mean cosine from which a window merges, until calibrated (public: ViT-B)"
    )

    @model_validator(mode="after")
    def _ordered(self) -> AlgmOptions:
        blocks = (self.local_block, *self.global_blocks)
        if list(blocks) != sorted(set(blocks)):
            raise ValueError(f"global_blocks must be increasing block numbers behind local_block {self.local_block}")
        return self


class DynamicVitOptions(Strict):
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


class EvoVitOptions(Strict):
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


class CroprOptions(Strict):
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


class DtopOptions(Strict):
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


class SvitOptions(Strict):
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


class TapFOptions(Strict):
    """TAP-F."""

    rank: int = Field(8, ge=1, description="rank of the low-rank updates (paper)")
    alpha: float = Field(8.0, gt=0, description="updates are scaled by alpha / rank (the paper gives none)")


class MethodOptions(Strict):
    """Settings of single methods; what is not named keeps the public recipe."""

    evit: EvitOptions | None = None
    dynamicvit: DynamicVitOptions | None = None
    evovit: EvoVitOptions | None = None
    cropr: CroprOptions | None = None
    dtop: DtopOptions | None = None
    svit: SvitOptions | None = None
    ats: AtsOptions | None = None
    tome: TomeOptions | None = None
    diffrate: DiffRateOptions | None = None
    algm: AlgmOptions | None = None
    tap_f: TapFOptions | None = None

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
    "ats": AtsOptions,
    "tome": TomeOptions,
    "diffrate": DiffRateOptions,
    "algm": AlgmOptions,
    "tap_f": TapFOptions,
}
"""The options of each method that has any, by name."""
