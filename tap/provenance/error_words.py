"""The words of errors, which decide nothing: they may change and no job is repeated."""

from __future__ import annotations

import ast

_QUIET_CALLS = {"len", "sorted", "str", "repr", "min", "max", "tuple", "list", "set", "dict", "type", "map", "round"}
_QUIET_METHODS = {"join", "items", "keys", "values", "strip", "format", "as_posix"}


def is_text(node: ast.expr) -> bool:
    """Whether an argument of an error is words: a string, an f-string, or strings put together."""
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.BinOp):
        return is_text(node.left) or (isinstance(node.op, ast.Add) and is_text(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("join", "format") and is_text(node.func.value)
    if isinstance(node, ast.IfExp):
        return is_text(node.body) and is_text(node.orelse)
    return False


def is_quiet(call: ast.Call) -> bool:
    """Whether a call within words does nothing but put them together."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in _QUIET_METHODS
    return isinstance(call.func, ast.Name) and call.func.id in _QUIET_CALLS
