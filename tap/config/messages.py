"""Turns pydantic's findings into lines that name the file, the key, and what is allowed there."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

_MOST = 8


def explain(error: ValidationError, model: type[BaseModel], locate: Callable[[str], tuple[str, str]]) -> str:
    """One line per finding, the first few of them.

    Args:
        error: what pydantic found.
        model: the model that was validated.
        locate: from a dotted name to the file that holds it and the name to show.
    """
    findings = error.errors(include_url=False)
    # A section with a wrong name is one mistake: what it lacks need not be listed as well.
    misnamed = {finding["loc"][:-1] for finding in findings if finding["loc"][-1:] == ("[key]",)}
    findings = [
        finding
        for finding in findings
        if finding["loc"][-1:] == ("[key]",) or not any(finding["loc"][: len(name)] == name for name in misnamed)
    ]
    lines = []
    for finding in findings[:_MOST]:
        place = [part for part in finding["loc"] if part != "[key]"]
        file, path = locate(".".join(map(str, place)))
        lines.append(": ".join(part for part in (file, path.rstrip("."), _what(finding, model, place)) if part))
    if len(findings) > _MOST:
        lines.append(f"... and {len(findings) - _MOST} more")
    return "\n".join(lines)


def _what(finding: Any, model: type[BaseModel], place: list[int | str]) -> str:
    kind, value = finding["type"], finding["input"]
    if kind == "extra_forbidden":
        known = _keys_of(model, place[:-1])
        near = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'? " if near else ""
        return f"unknown key; {hint}allowed here: {', '.join(known)}"
    if kind == "missing":
        return "is missing; give it a value"
    if kind == "value_error":
        return str(finding["ctx"]["error"])
    if kind in ("model_type", "dict_type"):
        return f"must be a section with further names, got {value!r}"
    if kind == "too_short":
        return f"needs at least {finding['ctx']['min_length']} value, got {value!r}"
    text = finding["msg"].replace("Input should be", "must be").replace("a valid tuple", "a list")
    return f"{text}, got {value!r}"


def _keys_of(model: type[BaseModel], place: list[int | str]) -> list[str]:
    """Names that the section at `place` may hold."""
    node: Any = model
    for part in place:
        if isinstance(node, type) and issubclass(node, BaseModel):
            node = _without_none(node.model_fields[str(part)].annotation)
        else:
            node = get_args(node)[-1]
    return list(node.model_fields)


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        return next(part for part in get_args(annotation) if part is not type(None))
    return annotation
