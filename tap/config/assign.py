"""`tap config set`: values, and ranges of them, written into params.yaml from the command line."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

from tap.config.load import PARAMS_FILE, load_scale
from tap.errors import UserError
from tap.provenance.files import atomic_write

_RANGE = re.compile(r"(?P<first>[\d.]+?)\.\.(?P<last>\d[\d.]*)(?::(?P<step>\d[\d.]*))?")


def assign(assignments: Sequence[str], scale: str | None = None, root: Path | str = ".") -> dict[str, Any]:
    """Writes values into the overrides of a scale in params.yaml, whose comments stay; all of them or none.

    Args:
        assignments: ``NAME=VALUE``. A name is a setting's dotted name, in which ``*`` stands for every task; a value is
            YAML, or a range with both ends: ``0..4`` or ``0.3..0.9:0.2``.
        scale: whose settings; None takes the scale that params.yaml names.
        root: the project's folder.

    Returns:
        The values by their dotted names.

    Raises:
        UserError: no assignment, or a wrong name or value.
    """
    cfg = load_scale(scale, root=root)
    values: dict[str, Any] = {}
    for text in assignments:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise UserError(f"'{text}': give NAME=VALUE, such as keep_rates=0.3..0.9:0.2 or tasks.*.seeds=0..4")
        names = [name.replace("*", task) for task in cfg.all_tasks] if "*" in name else [name]
        values |= dict.fromkeys(names, read_value(value))
    wanted = load_scale(cfg.scale, values, root)
    editor, path = YAML(), Path(root) / PARAMS_FILE
    editor.preserve_quotes = True
    editor.representer.add_representer(type(None), _null)
    editor.width = 120
    before = path.read_text(encoding="utf-8")
    tree = editor.load(before)
    overrides = tree.setdefault("overrides", {})
    if overrides.get(cfg.scale) is None:
        overrides[cfg.scale] = {}
    section = overrides[cfg.scale]
    section.fa.set_block_style()
    for name, value in values.items():
        section.pop(name, None)  # what is written last counts
        section[name] = _in_one_line(value)
    text = io.StringIO()
    editor.dump(tree, text)
    atomic_write(path, text.getvalue())
    if load_scale(cfg.scale, root=root) != wanted:
        atomic_write(path, before)
        raise UserError(f"{PARAMS_FILE}: sets one of {', '.join(values)} in another way as well; edit it by hand")
    return values


def _null(representer: Any, _: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")


def _in_one_line(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    shown = CommentedSeq(value)
    shown.fa.set_flow_style()
    return shown


def read_value(text: str) -> Any:
    """A value as YAML reads it, or the list that a range stands for.

    Raises:
        UserError: it is neither.
    """
    if (found := _RANGE.fullmatch(text)) is not None:
        return _numbers(text, found.groupdict())
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"'{text}': is not a value ({str(error).splitlines()[0]})") from error


def _numbers(text: str, found: Mapping[str, str | None]) -> list[int | float]:
    whole = not any("." in (part or "") for part in found.values())
    first, last, step = (Decimal(found[name] or "1") for name in ("first", "last", "step"))
    if last < first or step == 0 or not (whole or found["step"]):
        raise UserError(f"'{text}': a range rises to its last value by a step above 0, such as 0..4 or 0.3..0.9:0.2")
    count = int((last - first) / step) + 1
    values = [first + number * step for number in range(count)]
    return [int(value) if whole else float(value) for value in values]
