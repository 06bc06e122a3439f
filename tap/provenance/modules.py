"""A module of the project as it is written: its statements, what they bind, and what its imports name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

PACKAGE: Final = "tap"
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
BLIND: Final = frozenset(
    {
        *("property", "staticmethod", "classmethod", "abc.abstractmethod", "typing.overload", "typing.final"),
        *("functools.cache", "functools.lru_cache", "functools.cached_property", "functools.wraps"),
        *("contextlib.contextmanager", "dataclasses.dataclass", "torch.no_grad", "torch.inference_mode"),
    }
)
"""Decorators that read no annotation of a function and leave no trace outside of what they decorate."""


class Outer(NamedTuple):
    """What a name of a module stands for: a module or something in one, by its dotted path."""

    path: str

    @property
    def own(self) -> bool:
        """Whether it is of this project."""
        return self.path.partition(".")[0] == PACKAGE


@dataclass(frozen=True)
class Statement:
    """A statement of a module outside of any function or class.

    Attributes:
        node: its tree.
        names: what it binds.
        label: name of the statement in its module, which other statements do not change.
    """

    node: ast.stmt
    names: tuple[str, ...]
    label: str


@dataclass(frozen=True, eq=False)
class Module:
    """A file of the project.

    Attributes:
        name: dotted.
        package: whether it is an `__init__`.
        statements: all but imports and strings.
        bound: statements by the names that they bind.
        imports: dotted paths by the names that imports bind.
        executes: dotted paths that imports name.
        unused: imported paths of which the module uses no name: imported for what they do.
        stars: modules of which it imports everything.
    """

    name: str
    package: bool
    statements: tuple[Statement, ...]
    bound: dict[str, tuple[Statement, ...]]
    imports: dict[str, str]
    executes: tuple[str, ...]
    unused: tuple[str, ...]
    stars: tuple[str, ...]

    def path_of(self, name: str) -> str | None:
        """What a name stands for; None if the module neither binds nor imports it."""
        return f"{self.name}.{name}" if name in self.bound else self.imports.get(name)

    def absolute(self, written: str, name: str) -> str:
        """The dotted path of `from written import name`."""
        return f"{_absolute(self.name, self.package, written)}.{name}"

    def bound_by(self, node: ast.AST) -> list[tuple[str, str]]:
        """Names that an import binds, each with its dotted path."""
        return list(_bindings(node, self.name, self.package))


def decorator_name(decorator: ast.expr, path_of: Callable[[str], str | None]) -> str:
    """Dotted name of a decorator, called or not, with imports resolved; empty where it has none."""
    return dotted_name(decorator.func if isinstance(decorator, ast.Call) else decorator, path_of) or ""


def dotted_name(node: ast.expr | None, path_of: Callable[[str], str | None]) -> str | None:
    """Dotted name of an expression such as `nn.Module`, with imports resolved; None for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    return ".".join([path_of(node.id) or node.id, *parts]) if isinstance(node, ast.Name) else None


def is_string(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring, of whatever, or another constant that does nothing."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def written_in(node: ast.ImportFrom) -> str:
    """The module of an import as it is written, leading dots included."""
    return "." * node.level + (node.module or "")


def read_module(name: str, file: Path) -> Module:
    """Reads a file, or gives what was read of it if it has not changed since.

    Raises:
        SyntaxError: it cannot be parsed.
    """
    state = file.stat()
    return _read_at(name, file, state.st_mtime_ns, state.st_size)


@cache
def _read_at(name: str, file: Path, changed: int, size: int) -> Module:
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    package = file.name == "__init__.py"
    statements: list[Statement] = []
    imports: dict[str, str] = {}
    executes: list[str] = []
    stars: list[str] = []
    labels: dict[str, int] = {}
    for node in tree.body:
        if is_string(node) or _is_of_checkers(node) or _is_of_scripts(node):
            continue
        for part in ast.walk(node) if not isinstance(node, FUNCTIONS | ast.ClassDef) else ():
            imports.update(_bindings(part, name, package))
            if isinstance(part, ast.Import):
                executes += [alias.name for alias in part.names]
            elif isinstance(part, ast.ImportFrom):
                written = _absolute(name, package, written_in(part))
                executes += [f"{written}.{alias.name}" if alias.name != "*" else written for alias in part.names]
                stars += [written for alias in part.names if alias.name == "*"]
        if not isinstance(node, ast.Import | ast.ImportFrom):
            names = tuple(dict.fromkeys(_binds(node)))
            label = ",".join(names)
            labels[label] = labels.get(label, 0) + 1
            again = "" if label and labels[label] == 1 else f"#{labels[label]}"
            statements.append(Statement(node, names, f"{label}{again}"))
    bound: dict[str, list[Statement]] = {}
    for statement in statements:
        for bound_name in statement.names:
            bound.setdefault(bound_name, []).append(statement)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | _exported(tree)
    return Module(
        name,
        package,
        tuple(statements),
        {key: tuple(parts) for key, parts in bound.items()},
        imports,
        tuple(executes),
        tuple(_unused(imports, used)),
        tuple(stars),
    )


def _unused(imports: dict[str, str], used: set[str]) -> Iterator[str]:
    """Imported paths that are not used, of modules from which nothing else is: these may be there for what they do."""
    needed = {path.rpartition(".")[0] for name, path in imports.items() if name in used} | {"__future__"}
    for name, path in imports.items():
        if name not in used and path.rpartition(".")[0] not in needed:
            yield path


def _bindings(node: ast.AST, module: str, package: bool) -> Iterator[tuple[str, str]]:
    """Names that an import binds, each with its dotted path; none for other nodes and for stars."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (first, first)
    elif isinstance(node, ast.ImportFrom):
        written = _absolute(module, package, written_in(node))
        for alias in node.names:
            if alias.name != "*":
                yield alias.asname or alias.name, f"{written}.{alias.name}"


def _absolute(module: str, package: bool, written: str) -> str:
    """The dotted name of a module that is written with leading dots in another."""
    level = len(written) - len(written.lstrip("."))
    if not level:
        return written
    above = module.split(".") if package else module.split(".")[:-1]
    return ".".join([*above[: len(above) - (level - 1)], *([written[level:]] if written[level:] else [])])


def _binds(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, FUNCTIONS | ast.ClassDef):
        yield node.name
        return
    loops = (part for part in ast.walk(node) if isinstance(part, ast.comprehension))
    inner = {name for loop in loops for name in ast.walk(loop.target)}  # known in the comprehension alone
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store | ast.Del) and part not in inner:
            yield part.id
        elif isinstance(part, FUNCTIONS | ast.ClassDef):
            yield part.name


def _is_of_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _is_of_scripts(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _exported(tree: ast.Module) -> set[str]:
    """Names in `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return {str(part.value) for part in ast.walk(node.value) if isinstance(part, ast.Constant)}
    return set()
