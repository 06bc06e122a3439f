"""Names and numbers that several settings share, each with its range, and the checks of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from tap.config.datasets import DATASETS
from tap.config.methods import METHODS
from tap.task_facts import TASKS

Scale = Literal["smoke", "desk", "paper"]
if TYPE_CHECKING:
    TaskName = str
    DatasetName = str
    MethodName = str
else:  # what a type checker cannot know: the names come from the tasks' entries and the methods' files
    TaskName = Literal[tuple(TASKS)]
    DatasetName = Literal[tuple(DATASETS)]
    MethodName = Annotated[str, Field(json_schema_extra={"enum": list(METHODS)})]


def _two_decimals(rate: float) -> float:
    if round(rate, 2) != rate:
        raise ValueError("must have at most two decimals, since run folders are named by them")
    return rate


def check_blocks(name: str, blocks: Sequence[int], depth: int | None = None) -> None:
    """Refuses a list of blocks that does not rise, or names one that a model of some depth lacks.

    Raises:
        ValueError: names the list.
    """
    if list(blocks) != sorted(set(blocks)) or any(block < 1 for block in blocks):
        raise ValueError(f"{name} must be increasing block numbers, counted from 1")
    if depth is not None and any(block > depth for block in blocks):
        raise ValueError(f"{name} names block {blocks[-1]} of a model with {depth} blocks")


def _rising_factors(factors: tuple[float, float]) -> tuple[float, float]:
    if not 0 < factors[0] <= factors[1]:
        raise ValueError(f"must be two numbers above 0, the smaller one first, got {list(factors)}")
    return factors


def check_distinct(name: str, values: Sequence[object]) -> None:
    """Refuses a list that names a value twice.

    Raises:
        ValueError: names the list.
    """
    if len(set(values)) != len(values):
        raise ValueError(f"{name} names a value twice: {', '.join(map(str, values))}")


KeepRate = Annotated[
    float,
    Field(gt=0.0, le=1.0, description="share of input patches that reach the last block"),
    AfterValidator(_two_decimals),
]

Factors = Annotated[tuple[float, float], AfterValidator(_rising_factors)]
"""A range that a factor is drawn from."""

Alpha = Annotated[float, Field(ge=0.0, le=1.0)]
"""Share of the stored offset that recovery adds to the stand-in (Eq. 3)."""
