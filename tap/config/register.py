"""The task register, its training, and how a dense head gets removed positions back."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tap.config.strict import Strict
from tap.config.values import Alpha, check_blocks


class ControllerConfig(Strict):
    """The task register and its training (Alg. 1, Eqs. 4-6, Sec. Cardinality-constrained straight-through training)."""

    layers: tuple[int, ...] = Field((3, 6, 9), description="pruning blocks, counted from 1")
    tau_start: float = Field(1.0, gt=0, description="temperature at the start of training")
    tau_end: float = Field(0.1, gt=0, description="temperature at its end (cosine in between)")
    gumbel: bool = Field(True, description="perturb the training scores")
    allocation_bias: float = Field(
        -0.693147, description="initial b: sigmoid(b) = 1/3 of the budget at the first layer"
    )
    recovery_bias: float = Field(0.0, description="initial v: sigmoid(v) = 0.5 of the stored offset")
    register_std: float = Field(0.02, gt=0, description="standard deviation of the initial register")
    register_start: Literal["normal", "class_token"] = Field(
        "normal",
        description="where the register starts: a normal draw of register_std, or the pre-trained class token with its "
        "position, which the pre-training's file has for detection too",
    )
    schedule: tuple[float, ...] | None = Field(
        None, description="fixed shares of the removal budget per pruning block; null (default) learns the allocation"
    )

    selection: Literal["initial", "attention"] | None = Field(
        None,
        description="what ranks the patches: the initial register at every block, or incoming attention "
        "(tab:ablation); null (default) is the register's evolving state",
    )
    estimator: Literal["independent", "hard"] | None = Field(
        None,
        description="what trains the selection: independent gates with a rate loss, or nothing "
        "(tab:training-ablation); null (default) is the constrained straight-through mask",
    )
    rate_weight: float | None = Field(
        None, gt=0, description="weight of the rate loss of independent gates; null (default) is 2"
    )

    @model_validator(mode="after")
    def _ordered(self) -> ControllerConfig:
        if not self.layers:
            raise ValueError("layers must name at least one block")
        check_blocks("layers", self.layers)
        return self


class RecoveryConfig(Strict):
    """How a dense head gets removed positions back (Eqs. 2, 3); the defaults are the paper's for seg."""

    scale: Literal["learned"] | Alpha = Field(
        "learned", description="alpha of TAP: learned from the register, or one value for all"
    )
    endpoint: Literal["auto"] | Alpha = Field(
        1.0,
        description="alpha of methods without a readout: 1 full offset, 0 stand-in only; auto takes the one that is "
        "better on the calibration split (`tap endpoint`)",
    )
    matching: Literal["key", "token", "spatial", "score", "random", "final"] = Field(
        "key", description="what makes a patch the stand-in of a removed one (tab:matching-ablation)"
    )
    zero_fill: bool = Field(False, description="give back zeros instead (recovery off)")
