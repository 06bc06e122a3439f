"""Code as a parameter of a job: a hash that changes when, and only when, code that the job can run changes.

The hash covers the syntax trees of the named modules and of every module of this project that they import, directly or
not. Comments, docstrings and layout are no part of a tree that is compared, so they repeat no training; a changed line
in a module repeats exactly the jobs that reach it. Nothing is imported, hence it costs milliseconds.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGE = "tap"
SOURCES = Path(__file__).resolve().parents[2]
# A job's result cannot depend on these beyond what it is given: settings arrive resolved, as a parameter of their own;
# some word errors, name folders, keep records or show progress; and the registry of tasks chooses by name among modules
# that a job names itself (`tap.jobs.code_roots`), else every job would depend on every task.
NEUTRAL = (
    "tap.config",
    "tap.engine.reporting",
    "tap.errors",
    "tap.plan.runs",
    "tap.plan.specs",
    "tap.provenance",
    "tap.runs",
    "tap.tasks.registry",
)


def code_fingerprint(modules: Sequence[str], libraries: Sequence[str] = (), root: Path = SOURCES) -> str:
    """Hash of the code behind a job.

    Args:
        modules: names of this project's modules that the job starts from.
        libraries: distributions whose version counts as well, such as ``torch``.
        root: folder that holds the package.

    Returns:
        Hex sha256, then the versions that it covers in words, so that a comparison shows which library changed. Equal
        for equal code on the same Python minor version.

    Raises:
        ModuleNotFoundError: a module does not exist, or imports one of this project that does not.
        SyntaxError: a module cannot be parsed.
    """
    digest = hashlib.sha256()
    for name in reached_modules(modules, root):
        digest.update(f"{name}\n{_tree(_file(name, root), _stamp(_file(name, root)))}\n".encode())
    versions = [f"{library}=={version(library)}" for library in sorted(set(libraries))]
    for text in versions:
        digest.update(f"{text}\n".encode())
    return " ".join([digest.hexdigest(), *versions])


def hash_of(fingerprint: str) -> str:
    """The hash of a fingerprint, which is all that records keep of it: they list the versions themselves."""
    return fingerprint.partition(" ")[0]


def reached_modules(modules: Iterable[str], root: Path = SOURCES) -> list[str]:
    """Names of the given modules and of all project modules that they import, also inside functions; sorted.

    A package's `__init__` counts when a name is taken from it, not because a module below it is imported.
    """
    found: set[str] = set()
    waiting = sorted(set(modules))
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        file = _file(name, root)
        waiting += [
            imported
            for imported in _imports(name, file, _stamp(file), root)
            if imported not in found and not _is_neutral(imported)
        ]
    return sorted(found)


def module_exists(name: str, root: Path = SOURCES) -> bool:
    """Whether this project has a module of that name; nothing is imported."""
    return _find(name, root) is not None


@cache
def version(library: str) -> str:
    """Installed version of a distribution, or ``missing``."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "missing"


def _is_neutral(name: str) -> bool:
    return any(f"{name}.".startswith(f"{neutral}.") for neutral in NEUTRAL)


def _file(name: str, root: Path) -> Path:
    file = _find(name, root)
    if file is None:
        raise ModuleNotFoundError(f"no module '{name}' under {root}", name=name)
    return file


def _find(name: str, root: Path) -> Path | None:
    base = root.joinpath(*name.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)


def _stamp(file: Path) -> tuple[int, int]:
    """Tells an edited file from the one in the cache."""
    state = file.stat()
    return state.st_mtime_ns, state.st_size


@cache
def _parsed(file: Path, stamp: tuple[int, int]) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


@cache
def _tree(file: Path, stamp: tuple[int, int]) -> str:
    """The module's code as text without docstrings, comments and positions."""
    tree = _parsed(file, stamp)
    bodies = {
        id(node): node.body[1:] or [ast.Pass()]
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    }
    return _dump(tree, bodies)


def _dump(node: object, bodies: dict[int, list[ast.stmt]]) -> str:
    """Like `ast.dump`, with some bodies replaced, so that the cached tree itself stays whole."""
    if isinstance(node, ast.AST):
        fields = ((name, value) for name, value in ast.iter_fields(node) if name not in ("kind", "type_comment"))
        parts = (
            f"{name}={_dump(bodies.get(id(node), value) if name == 'body' else value, bodies)}"
            for name, value in fields
            if value is not None and value != []
        )
        return f"{type(node).__name__}({','.join(parts)})"
    if isinstance(node, list):
        return f"[{','.join(_dump(part, bodies) for part in node)}]"
    return repr(node)


@cache
def _imports(name: str, file: Path, stamp: tuple[int, int], root: Path) -> tuple[str, ...]:
    """Project modules that a module imports itself, at any level of nesting."""
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    found = (imported for node in ast.walk(_parsed(file, stamp)) for imported in _named_by(node, package, root))
    return tuple(sorted({imported for imported in found if imported.split(".")[0] == PACKAGE}))


def _named_by(node: ast.AST, package: list[str], root: Path) -> Iterator[str]:
    """Names of the modules that one node of a tree imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) - (node.level - 1)] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            below = f"{base}.{alias.name}"
            yield below if _find(below, root) is not None else base
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "import_module" and isinstance(node.args[0].value, str):
            yield node.args[0].value
