"""The base of all settings, and the kinds of numbers that several have."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0)]


class Strict(BaseModel):
    """Base of all settings: unknown keys are errors, values never change after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _no_truth_value_as_number(cls, values: Any) -> Any:
        """YAML reads `yes` and `on` as true, which would otherwise pass for the number 1."""
        for name, value in values.items() if isinstance(values, dict) else ():
            annotation = cls.model_fields[name].annotation if name in cls.model_fields else bool
            if isinstance(value, bool) and annotation is not bool and bool not in get_args(annotation):
                raise ValueError(f"{name} is {str(value).lower()}, which is no value for it")
        return values


class Options(Strict):
    """Base of the settings of one method."""

    def misfit(self, width: int) -> str | None:
        """What keeps these settings from a model of this token dimension; None where they fit."""
        return None
