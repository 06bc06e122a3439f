"""The search of what methods have of their own (`tap tune`): which candidates, on which seeds, with which budgets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tap.config.strict import Strict

_Above = Annotated[float, Field(gt=0)]


class TuneConfig(Strict):
    """As many candidates for every method, each trained with the budget of all and judged on the calibration split.

    Methods with a register try where it begins and how fast it, or everything, learns; all others, no pruning too, a
    learning rate. Of equal ones the first counts, so the values that a method has anyway stand first.
    """

    methods: tuple[str, ...] | None = Field(
        None,
        description="methods that take part where the task lists them, no pruning among them; null takes all but those "
        "that are trained on several tasks together",
    )
    seeds: tuple[int, ...] | Literal["all"] | None = Field(
        None, description="seeds of the task whose mean decides; all takes all of them, null the first one"
    )
    budget_seeds: tuple[int, ...] | Literal["all"] | None = Field(
        None, description="the same for `tap tune --budget`, which trains every method for several lengths"
    )
    lr_scales: tuple[_Above, ...] = Field(
        (1.0, 0.3, 3.0, 10.0), description="factors on the learning rate that methods without a register try"
    )
    register_starts: tuple[Literal["normal", "class_token"], ...] = Field(
        ("normal", "class_token"), description="values of controller.register_start that methods with a register try"
    )
    controller_lr_scales: tuple[_Above, ...] = Field(
        (1.0, 30.0), description="values of optimizer.controller_lr_scale that they try with each of these"
    )
    register_lr_scales: tuple[_Above, ...] = Field(
        (1.0,), description="factors on the learning rate of everything that they try with each of these"
    )
    length_scales: tuple[_Above, ...] = Field(
        (1.0, 2.0, 4.0), description="factors on the length of the trainings that `tap tune --budget` compares, rising"
    )
    agreement: float = Field(
        0.9, ge=-1, le=1, description="Kendall's tau with the next length from which the order of methods is the same"
    )
    among_results: bool = Field(
        False, description="whether the search is one of the results that `snakemake` makes; else `snakemake tune` does"
    )

    @model_validator(mode="after")
    def _as_many_for_all(self) -> TuneConfig:
        of_registers = ("register_starts", "controller_lr_scales", "register_lr_scales")
        for name in ("methods", "seeds", "budget_seeds", "lr_scales", *of_registers):
            values: Sequence[object] | None = getattr(self, name)
            if values not in (None, "all") and (not values or len(set(values)) < len(values)):
                raise ValueError(f"{name} must name at least one value, and none twice, got {list(values)}")
        combined = math.prod(len(getattr(self, name)) for name in of_registers)
        if len(self.lr_scales) != combined:
            raise ValueError(
                f"lr_scales has {len(self.lr_scales)} candidates, and {' x '.join(of_registers)} has {combined}; "
                "give every method as many, so that none is searched more than another"
            )
        if len(self.length_scales) < 2 or list(self.length_scales) != sorted(set(self.length_scales)):
            raise ValueError(f"length_scales must be two rising factors or more, got {list(self.length_scales)}")
        return self
