"""Names that code computes while it runs: which attributes, locals or globals it reads then cannot be told."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

READ_MODULE: Final = {"globals", "eval", "exec", "__import__"}
"""Functions that find names of a module by text."""
# Functions that read local names as text, some only if they are given one; beside them these names count.
_READ_LOCALS = {"locals", "vars", "dir", "eval", "exec", "query"}
_READ_FRAMES = {"_getframe", "currentframe"}
_ATTRIBUTES = {"getattr", "hasattr"}  # `setattr` reads none


def called_name(call: ast.Call) -> str:
    """The last part of the name of what is called; empty where it has none."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else str(getattr(call.func, "id", ""))


def string_arguments(call: ast.Call) -> list[str]:
    """The positional arguments that are strings, as they are written."""
    values = (part.value for part in call.args if isinstance(part, ast.Constant))
    return [value for value in values if isinstance(value, str)]


def names_of_attributes(call: ast.Call) -> Iterable[str] | None:
    """Attributes that a call of `getattr` and the like names; None where it computes a name."""
    name = called_name(call)
    if name in _ATTRIBUTES:
        given = call.args[1:2]
    elif name in ("attrgetter", "methodcaller"):
        given = call.args if name == "attrgetter" else call.args[:1]
    else:
        return ()
    names = [part.value for part in given if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return [part for name in names for part in name.split(".")] if names and len(names) == len(given) else None


def reads_locals(node: ast.AST) -> bool:
    """Whether a function may read local names as text."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in _READ_LOCALS | _READ_FRAMES:
            return True
        if isinstance(part, ast.Attribute) and part.attr in _READ_FRAMES:
            return True
        if (
            isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and part.args
            and called_name(part) in _READ_LOCALS
        ):
            return True
    return False
