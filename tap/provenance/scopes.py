"""Names within functions, classes and comprehensions: which ones a piece of code binds itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from tap.provenance.modules import Outer

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

Annotations = Literal["none", "fields", "all"]
"""Which annotations of a class act: none, that fields exist and in which order (dataclasses, named tuples), or all."""


@dataclass
class Scope:
    """Names of a function, class or comprehension, by how the normal form spells them."""

    kind: Literal["function", "class"]
    names: dict[str, str] = field(default_factory=dict)
    imported: dict[str, Outer] = field(default_factory=dict)
    nonlocals: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    annotations: Annotations = "none"


def is_import(node: ast.AST) -> bool:
    """Whether a node is an import of any form."""
    return isinstance(node, ast.Import | ast.ImportFrom)


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters of a function: those with names first, then `*args` and `**kwargs`."""
    stars = [part for part in (arguments.vararg, arguments.kwarg) if part is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *stars]


def parameter_names(arguments: ast.arguments) -> list[str]:
    """Names of all parameters of a function."""
    return [part.arg for part in all_arguments(arguments)]


def stored_names(node: ast.AST) -> Iterator[str]:
    """Names that a target binds."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store | ast.Del):
            yield part.id


def flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a scope, those inside of blocks included."""
    for statement in body:
        yield from (part for part in own_nodes(statement) if isinstance(part, ast.stmt))


@cache
def own_nodes(node: ast.AST) -> tuple[ast.AST, ...]:
    """Nodes in source order without those of inner scopes; of a comprehension the names that `:=` binds."""
    found: list[ast.AST] = []
    waiting = [(node, True)]
    while waiting:
        part, inside = waiting.pop()
        found.append(part)
        if not inside or isinstance(part, _SCOPES):
            continue
        below: list[tuple[ast.AST, bool]] = []
        for child in ast.iter_child_nodes(part):
            if isinstance(child, _COMPREHENSIONS):
                below += [(each, False) for each in ast.walk(child) if isinstance(each, ast.NamedExpr)]
            else:
                below.append((child, True))
        waiting += reversed(below)
    return tuple(found)


def bound_names(body: list[ast.stmt]) -> list[str]:
    """Names that statements of one scope bind, in source order."""
    return [name for statement in body for name in _bound_by(statement)]


@cache
def _bound_by(statement: ast.stmt) -> tuple[str, ...]:
    found: list[str] = []
    for node in own_nodes(statement):
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                found.append(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.append(node.name)
            case ast.NamedExpr():
                found.append(node.target.id)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.append(name)
            case ast.MatchMapping(rest=str(name)):
                found.append(name)
            case ast.Import() | ast.ImportFrom():
                found += [alias.asname or alias.name.split(".")[0] for alias in node.names]
    return tuple(found)
