"""Code as a parameter of a job: a hash that changes when, and only when, code that the job can run changes.

The unit is the definition: a function, class or constant that the job reaches from where it starts, over all names that
they use, and in their normal form (`tap.provenance.normal_form`). What a reached module does when it is imported counts
as well. Nothing is imported, hence it costs milliseconds. The rule, on one page: `docs/fingerprint.md`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from tap.provenance.definitions import Project
from tap.provenance.import_effects import does_more
from tap.provenance.known_fingerprints import KnownFingerprints
from tap.provenance.modules import PACKAGE, Module, Outer, Statement
from tap.provenance.normal_form import Form

SOURCES: Final = Path(__file__).resolve().parents[2]
# A job's result cannot depend on these beyond what it is given: settings arrive resolved, as a parameter of their own;
# some word errors, name folders, keep records or show progress; and the registry of tasks chooses by name among modules
# that a job names itself (`tap.jobs.code_roots`), else every job would depend on every task.
NEUTRAL: Final = (
    "tap.config",
    "tap.engine.reporting",
    "tap.errors",
    "tap.plan.runs",
    "tap.plan.specs",
    "tap.provenance",
    "tap.runs",
    "tap.tasks.registry",
)
ENTRANCE: Final = PACKAGE
"""The package itself makes the library's models known to timm, by name, which no job reads."""


def code_fingerprint(roots: Sequence[str], libraries: Sequence[str] = (), root: Path = SOURCES) -> str:
    """Hash of the code behind a job.

    Args:
        roots: where the job starts: ``package.module:definition``, or ``package.module`` for all that a module defines.
        libraries: distributions whose version counts as well, such as ``torch``.
        root: folder that holds the package.

    Returns:
        Hex sha256, then the versions that it covers in words, so that a comparison shows which library changed. Equal
        for equal code on the same Python minor version.

    Raises:
        ModuleNotFoundError: a module does not exist, or imports one of this project that does not.
        LookupError: a module has no such definition.
        SyntaxError: a module cannot be parsed.
    """
    versions = [f"{library}=={version(library)}" for library in sorted(set(libraries))]
    key, sources = json.dumps([sorted(set(roots)), versions]), _sources(root)
    if (found := sources.known.get(key)) is not None:
        return found
    digest = hashlib.sha256()
    for name, text in sorted(_reach(roots, sources).items()):
        digest.update(f"{name}\n{text}\n".encode())
    for text in versions:
        digest.update(f"{text}\n".encode())
    fingerprint = " ".join([digest.hexdigest(), *versions])
    sources.known.keep(key, fingerprint)
    return fingerprint


def hash_of(fingerprint: str) -> str:
    """The hash of a fingerprint, which is all that records keep of it: they list the versions themselves."""
    return fingerprint.partition(" ")[0]


def reached_definitions(roots: Iterable[str], root: Path = SOURCES) -> list[str]:
    """What a fingerprint covers: ``module:definition``, ``module:Class.method``, or ``module:*`` for all of a module.

    What a module does on import stands under the names that it binds, or as ``module:#1`` where it binds none.
    """
    return sorted(_reach(roots, _sources(root)))


def reached_modules(roots: Iterable[str], root: Path = SOURCES) -> list[str]:
    """Names of the modules that a fingerprint covers something of; sorted."""
    return sorted({name.partition(":")[0] for name in _reach(roots, _sources(root))})


def module_exists(name: str, root: Path = SOURCES) -> bool:
    """Whether this project has a module of that name; nothing is imported."""
    base = root.joinpath(*name.split("."))
    return base.with_suffix(".py").is_file() or (base / "__init__.py").is_file()


@cache
def version(library: str) -> str:
    """Installed version of a distribution, or ``missing``."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "missing"


@cache
def _is_neutral(name: str) -> bool:
    return name == ENTRANCE or any(f"{name}.".startswith(f"{neutral}.") for neutral in NEUTRAL)


def _files(folder: Path | str, name: str = PACKAGE) -> dict[str, tuple[str, int, int]]:
    """Modules below a package, with what tells an edited file from the one that was read."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                state = entry.stat()
                below = name if entry.name == "__init__.py" else f"{name}.{entry.name[:-3]}"
                found[below] = entry.path, state.st_mtime_ns, state.st_size
            elif "." not in entry.name and entry.name[0] != "_" and entry.is_dir():
                found |= _files(entry.path, f"{name}.{entry.name}")
    return found


class _Sources:
    """A package as it is on disk now, with what has been found out about it."""

    def __init__(self, files: dict[str, tuple[str, int, int]], root: Path) -> None:
        self.files = files
        self.project = Project({name: Path(facts[0]) for name, facts in files.items()})
        self.reached: dict[tuple[str, ...], dict[str, str]] = {}
        self.known = KnownFingerprints((facts[0] for facts in files.values()), root)
        self._acting: dict[str, list[Statement]] = {}

    def acting(self, module: Module) -> list[Statement]:
        """Statements that do something when the module is imported."""
        if module.name not in self._acting:
            found = [part for part in module.statements if does_more(self.project, module, part.node)]
            self._acting[module.name] = found
        return self._acting[module.name]


_read: dict[Path, _Sources] = {}


def _sources(root: Path) -> _Sources:
    """A package as it is on disk now; kept until a file of it changes."""
    files = _files(root / PACKAGE)
    if root not in _read or _read[root].files != files:
        _read[root] = _Sources(files, root)
    return _read[root]


def _reach(roots: Iterable[str], sources: _Sources) -> dict[str, str]:
    """Hashes of all that some roots reach, by name."""
    key = tuple(sorted(set(roots)))
    if key not in sources.reached:
        sources.reached[key] = _Walk(sources).reach(key)
    return sources.reached[key]


class _Walk:
    """Follows names from some roots until nothing new is found."""

    def __init__(self, sources: _Sources) -> None:
        self._sources, self._project = sources, sources.project
        self._found: dict[str, str] = {}
        self._waiting: list[Form] = []
        self._used: set[str] = set()
        self._imported: set[str] = set()
        self._executed: set[str] = set()
        self._whole: set[str] = set()
        self._attributes: set[str] = set()
        self._any_attribute = False
        self._methods: dict[str, list[tuple[Module, Statement, str]]] = {}

    def reach(self, roots: Iterable[str]) -> dict[str, str]:
        for name in roots:
            self._start(*name.partition(":")[::2])
        while self._waiting:
            self._follow(self._waiting.pop())
        return self._found

    def _start(self, module: str, definition: str) -> None:
        found = self._project.module(module)
        if definition and found.path_of(definition) is None:
            raise LookupError(f"module '{module}' defines no '{definition}'")
        self._execute(module)
        for name in [definition] if definition else found.bound:
            self._use(f"{module}.{name}")

    def _follow(self, form: Form) -> None:
        for path in form.executes:
            self._execute(path)
        for path in form.paths:
            self._use(path)
        for name in form.attributes - self._attributes:
            self._attributes.add(name)
            for method in self._methods.pop(name, []):
                self._method(*method)
        if form.any_attribute and not self._any_attribute:
            self._any_attribute = True
            for methods in list(self._methods.values()):
                for method in methods:
                    self._method(*method)
            self._methods.clear()

    def _execute(self, path: str) -> None:
        """A module is imported, or a name from it, and with it the packages that it is in."""
        if path in self._imported:
            return
        self._imported.add(path)
        parts = path.split(".")
        for length in range(1, len(parts) + 1):
            self._execute_one(".".join(parts[:length]))

    def _execute_one(self, name: str) -> None:
        """What a module does when it is imported counts, and what the modules do that it imports."""
        if name in self._executed or _is_neutral(name) or name not in self._project.files:
            return
        self._executed.add(name)
        module = self._project.module(name)
        for statement in self._sources.acting(module):
            self._statement(module, statement)
        for path in module.unused:
            if not Outer(path).own:
                self._found[f"{name}:import {path}"] = ""
        for star in module.stars:
            self._everything(name)
            self._everything(star)
        for path in module.executes:
            if Outer(path).own:
                self._project.require(path)
                self._execute(path)

    def _use(self, path: str) -> None:
        """A name is used: all that binds it counts."""
        place = self._project.place(path)
        if _is_neutral(place.module) or path in self._used:
            return
        self._used.add(path)
        self._execute(place.module)
        if place.name is None:
            self._everything(place.module)
            return
        module = self._project.module(place.module)
        statements = module.bound.get(place.name, ())
        if not statements and (place.name in module.imports or place.name.startswith("__")):
            return  # of a library, or what every module has, such as `__file__`
        again = [statement for statement in statements if not _is_overload(statement)]
        if not statements or len(again) > 1:
            self._everything(place.module)  # made by `__getattr__`, or bound anew at some point
        for statement in statements:
            self._statement(module, statement)

    def _statement(self, module: Module, statement: Statement) -> None:
        if not self._add(module, statement.label, self._project.form(module, statement)):
            return
        for name in self._project.methods(module, statement):
            if self._any_attribute or name in self._attributes or module.name in self._whole:
                self._method(module, statement, name)
            else:
                self._methods.setdefault(name, []).append((module, statement, name))

    def _method(self, module: Module, statement: Statement, name: str) -> None:
        self._add(module, f"{statement.label}.{name}", self._project.form(module, statement, name))

    def _everything(self, name: str) -> None:
        """Which part of a module is used cannot be told: all of it counts."""
        if name not in self._whole and name in self._project.files and not _is_neutral(name):
            self._whole.add(name)
            self._execute(name)
            module = self._project.module(name)
            self._add(module, "*", self._project.whole(module))

    def _add(self, module: Module, label: str, form: Form) -> bool:
        name = f"{module.name}:{label}"
        if name in self._found:
            return False
        self._found[name] = form.digest
        self._waiting.append(form)
        if form.any_name:
            self._everything(module.name)
        return True


def _is_overload(statement: Statement) -> bool:
    decorators: list[ast.expr] = getattr(statement.node, "decorator_list", [])
    return any(getattr(part, "id", getattr(part, "attr", "")) == "overload" for part in decorators)
