"""The numbers that the paper states in its text, as data (`statements.yaml`), with the place where each is printed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from tap.errors import UserError
from tap.paper.reported import Printed

FILE = Path(__file__).with_name("statements.yaml")


@dataclass(frozen=True)
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
    numbers: dict[str, Printed]


@cache
def load_statements(path: Path = FILE) -> dict[str, Statement]:
    """All statements by id, in the file's order.

    Raises:
        UserError: the file is not of the right form, or an id appears twice.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = [_statement(item) for item in raw]
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a list of statements ({error}); see tap/paper/statements.py") from error
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


def _statement(item: dict) -> Statement:
    if unknown := set(item) - {"id", "where", "says", "numbers"}:
        raise ValueError(f"'{item['id']}': unknown entries {sorted(unknown)}")
    numbers = {}
    for part, text in item["numbers"].items():
        if not isinstance(text, str):
            raise ValueError(f"'{item['id']}': quote the number {text!r}")
        numbers[part] = Printed.parse(text)
        if numbers[part].value is None:
            raise ValueError(f"'{item['id']}': '{text}' is no number")
    return Statement(item["id"], item["where"], item["says"], numbers)
