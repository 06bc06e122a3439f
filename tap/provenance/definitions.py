"""The project's modules as definitions: where a dotted path leads, what classes derive from, and the form of each part.

Nothing is imported: the files are read.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tap.provenance.modules import BLIND, FUNCTIONS, Module, Outer, Statement, decorator_name, dotted_name, read_module
from tap.provenance.normal_form import Form, normal_form, together
from tap.provenance.scopes import Annotations

PLAIN_BASES: Final = frozenset(
    {
        *("object", "abc.ABC", "typing.Protocol", "typing.Generic", "typing.NamedTuple", "typing.TypedDict"),
        *("enum.Enum", "enum.StrEnum", "enum.IntEnum", "torch.nn.Module", "torch.autograd.Function"),
        *("types.ModuleType", "Exception", "ValueError", "RuntimeError", "TypeError", "KeyError"),
    }
)
"""Classes that do nothing when one derives from them, and read no annotation but those that say which fields exist."""
_INTERFACE: Final = "abc.ABC"
_OF_INTERFACES: Final = {_INTERFACE, "object", "typing.Generic", "typing.Protocol"}
_OF_FIELDS: Final = {"typing.NamedTuple", "typing.TypedDict"}


class Place(NamedTuple):
    """Where a dotted path leads: to a module, or to a name that a module binds (None: to the module itself)."""

    module: str
    name: str | None


class Project:
    """All modules of a package, as they are on disk now.

    Args:
        files: its modules by dotted name.
    """

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files
        self._modules: dict[str, Module] = {}
        self._places: dict[str, Place] = {}
        self._forms: dict[tuple[str, str, str], Form] = {}
        self._methods: dict[tuple[str, str], dict[str, ast.stmt]] = {}
        self._bases: dict[Place, tuple[frozenset[str], frozenset[Place]]] = {}

    def module(self, name: str) -> Module:
        """A module.

        Raises:
            ModuleNotFoundError: the project has none of that name.
            SyntaxError: it cannot be parsed.
        """
        if name not in self._modules:
            if name not in self.files:
                raise ModuleNotFoundError(f"no module '{name}'", name=name)
            self._modules[name] = read_module(name, self.files[name])
        return self._modules[name]

    def place(self, path: str) -> Place:
        """Where a dotted path leads, through modules that only pass a name on.

        Raises:
            ModuleNotFoundError: a module that it names does not exist.
        """
        if path not in self._places:
            self._places[path] = self._find(path)
        return self._places[path]

    def _find(self, path: str) -> Place:
        parts = path.split(".")
        length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in self.files), 0)
        name = ".".join(parts[:length])
        if length == len(parts):
            return Place(name, None)
        if length == 0:
            if any(name.startswith(f"{path}.") for name in self.files):  # a folder without `__init__`
                return Place(path, None)
            raise ModuleNotFoundError(f"no module '{path}'", name=path)
        module, wanted = self.module(name), parts[length]
        if wanted in module.imports and wanted not in module.bound:
            passed = module.imports[wanted]
            return self.place(".".join([passed, *parts[length + 1 :]])) if Outer(passed).own else Place(name, wanted)
        return Place(name, wanted)

    def require(self, path: str) -> None:
        """Refuses an import that leads nowhere.

        Raises:
            ModuleNotFoundError: a module does not exist, or does not have what is imported from it.
        """
        place = self.place(path)
        if place.name is None or place.module not in self.files:
            return
        module = self.module(place.module)
        if place.name not in module.bound.keys() | module.imports.keys() and not (
            module.stars or "__getattr__" in module.bound
        ):
            raise ModuleNotFoundError(f"no module '{path}', and no such name in '{place.module}'", name=path)

    def form(self, module: Module, statement: Statement, method: str = "") -> Form:
        """The normal form of a statement without the methods that count one by one, or of one of these."""
        key = module.name, statement.label, method
        if key not in self._forms:
            methods = self.methods(module, statement)
            node, without = (methods[method], ()) if method else (statement.node, tuple(methods))
            self._forms[key] = _form(module, node, self.annotations(module, node), without)
        return self._forms[key]

    def whole(self, module: Module) -> Form:
        """The normal form of a module with all that it holds, in order."""
        forms = [
            _form(module, statement.node, self.annotations(module, statement.node), ())
            for statement in module.statements
        ]
        return together(forms)

    def methods(self, module: Module, statement: Statement) -> dict[str, ast.stmt]:
        """Methods that count only where their name is used: those of classes that only this project can call.

        These are classes of an interface of the project (one that derives from `ABC`) without any other foreign base.
        """
        key = module.name, statement.label
        if key not in self._methods:
            self._methods[key] = self._called_by_name(module, statement.node)
        return self._methods[key]

    def _called_by_name(self, module: Module, node: ast.stmt) -> dict[str, ast.stmt]:
        if not isinstance(node, ast.ClassDef):
            return {}
        foreign, _ = self.bases(Place(module.name, node.name))
        if _INTERFACE not in foreign or not foreign <= _OF_INTERFACES:
            return {}
        return {
            part.name: part
            for part in node.body
            if isinstance(part, FUNCTIONS) and not part.name.startswith("__") and _decorators(module, part) <= BLIND
        }

    def bases(self, cls: Place) -> tuple[frozenset[str], frozenset[Place]]:
        """Foreign classes that a class derives from, and those of this project; direct or not. `?`: not known."""
        if cls not in self._bases:
            self._bases[cls] = frozenset({"?"}), frozenset()  # for one that derives from itself
            foreign: set[str] = set()
            own: set[Place] = set()
            module = self.module(cls.module)
            for node in (statement.node for statement in module.bound.get(cls.name or "", ())):
                for base in node.bases if isinstance(node, ast.ClassDef) else [None]:
                    path = dotted_name(base.value if isinstance(base, ast.Subscript) else base, module.path_of)
                    if path is not None and Outer(path).own:
                        above = self.bases(self.place(path))
                        foreign |= above[0]
                        own |= {self.place(path), *above[1]}
                    else:
                        foreign.add(path or "?")
            self._bases[cls] = frozenset(foreign), frozenset(own)
        return self._bases[cls]

    def annotations(self, module: Module, node: ast.stmt) -> Annotations:
        """Which annotations of a class act; none for other statements."""
        if not isinstance(node, ast.ClassDef):
            return "none"
        decorators = _decorators(module, node)
        foreign, _ = self.bases(Place(module.name, node.name))
        if not decorators <= BLIND or not foreign <= PLAIN_BASES or node.keywords:
            return "all"
        return "fields" if "dataclasses.dataclass" in decorators or foreign & _OF_FIELDS else "none"


@cache
def _form(module: Module, node: ast.stmt, annotations: Annotations, without: tuple[str, ...]) -> Form:
    return normal_form(module, node, annotations, without)


def _decorators(module: Module, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {decorator_name(part, module.path_of) for part in node.decorator_list}
