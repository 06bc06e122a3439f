"""Names within functions, classes and comprehensions: which ones a piece of code binds itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from tap.provenance.modules import FUNCTIONS, Outer

_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp

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


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes in source order without those of inner scopes; of a comprehension the names that `:=` binds."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, FUNCTIONS | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, _COMPREHENSIONS):
            yield from (part for part in ast.walk(child) if isinstance(part, ast.NamedExpr))
            continue
        yield from own_nodes(child)


def bound_names(body: list[ast.stmt]) -> list[str]:
    """Names that statements of one scope bind, in source order."""
    found: list[str] = []
    for statement in body:
        for node in own_nodes(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
                found.append(node.id)
            elif isinstance(node, FUNCTIONS | ast.ClassDef):
                found.append(node.name)
            elif isinstance(node, ast.NamedExpr):
                found.append(node.target.id)
            elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
                found.append(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest is not None:
                found.append(node.rest)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found += [alias.asname or alias.name.split(".")[0] for alias in node.names]
    return found
