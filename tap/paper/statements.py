"""The numbers that the paper states in its text, as data (`statements.yaml`), with the place where each is printed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict
from pydantic.dataclasses import dataclass

from tap.errors import UserError
from tap.paper.reported import Printed
from tap.paper.yaml_file import read_yaml

FILE = Path(__file__).with_name("statements.yaml")


def _number(text: Any) -> Printed:
    if not isinstance(text, str):
        raise ValueError(f"quote the number {text!r}")
    number = Printed.parse(text)
    if number.value is None:
        raise ValueError(f"'{text}' is no number")
    return number


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Statement:
    """One statement of the text.

    Attributes:
        id: stable name.
        where: abstract or section.
        says: what the numbers are, in words of this project.
        numbers: the printed numbers by task, metric or part.
    """

    id: str
    where: str
    says: str
    numbers: dict[str, Annotated[Printed, BeforeValidator(_number)]]


@cache
def load_statements(path: Path = FILE) -> dict[str, Statement]:
    """All statements by id, in the file's order.

    Raises:
        UserError: the file is not of the right form, or an id appears twice.
    """
    found: list[Statement] = read_yaml(path, list[Statement])
    by_id = {item.id: item for item in found}
    if len(by_id) < len(found):
        raise UserError(f"{path}: an id appears twice; give each statement its own")
    return by_id


def stated(name: str, part: str) -> Printed:
    """One printed number of a statement.

    Raises:
        KeyError: there is no such statement or part.
    """
    return load_statements()[name].numbers[part]
