"""What a piece of code says, as text for a hash: equal texts mean that running one or the other makes no difference.

Left out are comments, layout, docstrings and other string statements, annotations where nothing reads them, and the
words of raised errors. Local names stand as their position, imported ones as what they import. On the way it is
collected which other definitions the code names, and which attributes. `docs/fingerprint.md` states the rule.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tap.provenance.dynamic_access import READ_MODULE, called_name, names_of_attributes, reads_locals, string_arguments
from tap.provenance.error_words import is_quiet, is_text
from tap.provenance.modules import BLIND, FUNCTIONS, Module, Outer, decorator_name, is_string, written_in
from tap.provenance.scopes import (
    Annotations,
    Scope,
    all_arguments,
    bound_names,
    flat,
    is_import,
    own_nodes,
    parameter_names,
    stored_names,
)

_MODULES_BY_NAME: Final = {"sys.modules", "importlib.import_module", "importlib.reload"}


@dataclass(frozen=True)
class Form:
    """The normal form of a statement, and what it may lead to.

    Attributes:
        digest: hash of the normal form.
        paths: names and modules of this project that it uses, dotted.
        executes: those that it imports when it runs.
        attributes: names of all attributes that it reads or writes.
        any_attribute: whether it computes the name of an attribute.
        any_name: whether it computes names of its own module, or of modules.
    """

    digest: str
    paths: frozenset[str]
    executes: frozenset[str]
    attributes: frozenset[str]
    any_attribute: bool
    any_name: bool


def normal_form(
    module: Module,
    node: ast.stmt,
    annotations: Annotations = "none",
    without: Iterable[str] = (),
) -> Form:
    """The normal form of a statement of a module.

    Args:
        module: where it stands.
        node: a definition, a method, or any other statement.
        annotations: which annotations act, if it is a class.
        without: methods of a class that are left out, since they are looked at one by one.
    """
    writer = _Writer(module, frozenset(without))
    text = writer.top(node, annotations)
    return Form(
        hashlib.sha256(text.encode()).hexdigest(),
        frozenset(writer.paths),
        frozenset(writer.executes),
        frozenset(writer.attributes),
        writer.any_attribute,
        writer.any_name,
    )


def together(forms: Sequence[Form]) -> Form:
    """Several statements as one, which may compute any name."""
    return Form(
        hashlib.sha256(" ".join(form.digest for form in forms).encode()).hexdigest(),
        frozenset(path for form in forms for path in form.paths),
        frozenset(path for form in forms for path in form.executes),
        frozenset(name for form in forms for name in form.attributes),
        any(form.any_attribute for form in forms),
        any_name=True,
    )


class _Writer:
    """Walks one statement."""

    def __init__(self, module: Module, without: frozenset[str]) -> None:
        self._module, self._without = module, without
        self._scopes: list[Scope] = []
        self._literal = False
        self.paths: set[str] = set()
        self.executes: set[str] = set()
        self.attributes: set[str] = set()
        self.any_attribute = self.any_name = False

    def top(self, statement: ast.stmt, annotations: Annotations) -> str:
        if isinstance(statement, ast.ClassDef):
            return self._class(statement, annotations)
        return self._any(statement)

    def _any(self, node: object) -> str:
        if isinstance(node, ast.AST):
            special = getattr(self, f"_on_{type(node).__name__}", None)
            return special(node) if special is not None else self._plain(node)
        if isinstance(node, list):
            if node and isinstance(node[0], ast.stmt):
                return self._body(node)
            return f"[{','.join(map(self._any, node))}]"
        return repr(node)

    def _plain(self, node: ast.AST) -> str:
        parts = (
            f"{name}={self._any(value)}"
            for name, value in ast.iter_fields(node)
            if value is not None and value != [] and name not in ("ctx", "kind", "type_comment")
        )
        return f"{type(node).__name__}({','.join(parts)})"

    def _body(self, statements: list[ast.stmt]) -> str:
        texts = (self._any(statement) for statement in statements if not is_string(statement))
        return f"[{','.join(text for text in texts if text and text != 'Pass()')}]"

    # Names

    def _on_Name(self, node: ast.Name) -> str:
        found = self._name(node.id)
        return self._use(found) if isinstance(found, Outer) else found

    def _name(self, name: str) -> str | Outer:
        """How a local name is spelled, or what any other stands for."""
        for place, scope in enumerate(reversed(self._scopes)):
            if scope.kind == "class" and place > 0:
                continue
            if name in scope.globals:
                break
            if name in scope.nonlocals:
                continue
            if name in scope.imported:
                return scope.imported[name]
            if name in scope.names:
                return scope.names[name]
        if name in READ_MODULE:
            self.any_name = True
        path = self._module.path_of(name)
        return f"Name({name})" if path is None else Outer(path)

    def _use(self, outer: Outer) -> str:
        if outer.own:
            self.paths.add(outer.path)
        elif outer.path in _MODULES_BY_NAME:
            self.any_name = True
        return f"<{outer.path}>"

    def _on_Attribute(self, node: ast.Attribute) -> str:
        self.attributes.add(node.attr)
        if node.attr in ("__dict__", "__getattribute__"):
            self.any_attribute = True
        outer = self._dotted(node)
        return f"Attribute({self._any(node.value)},{node.attr})" if outer is None else self._use(outer)

    def _dotted(self, node: ast.expr) -> Outer | None:
        """What `module.name` or `name.attribute` is; None for attributes of local objects and of results."""
        if isinstance(node, ast.Name):
            found = self._name(node.id)
            return found if isinstance(found, Outer) else None
        base = self._dotted(node.value) if isinstance(node, ast.Attribute) else None
        return None if base is None else Outer(f"{base.path}.{node.attr}")  # type: ignore[attr-defined]

    def _on_Call(self, node: ast.Call) -> str:
        name, words = called_name(node), string_arguments(node)
        computed = names_of_attributes(node)
        if computed is None:
            self.any_attribute = True
        else:
            self.attributes.update(computed)
        if name == "import_module" and len(node.args) == len(words) == 1:
            self._use(Outer(words[0]))
            return self._imported(words)
        return self._plain(node)

    def _on_Constant(self, node: ast.Constant) -> str:
        return repr(node.value)

    # Statements

    def _on_AnnAssign(self, node: ast.AnnAssign) -> str:
        scope = self._scopes[-1] if self._scopes else None
        acts = scope.annotations if scope is not None and scope.kind == "class" else "none"
        value = "" if node.value is None else self._any(node.value)
        kind = ""
        if acts == "all":
            kind = self._any(node.annotation)
        elif acts == "fields":
            kind = "field " + " ".join(word for word in ("ClassVar", "InitVar", "KW_ONLY") if _names(node, word))
        if not value and not kind:
            return ""
        target = self._any(node.target)
        return f"Field({target},{kind},{value})" if kind else f"Assign(targets=[{target}],value={value})"

    def _on_Raise(self, node: ast.Raise) -> str:
        raised, cause = node.exc, "" if node.cause is None else self._any(node.cause)
        if not isinstance(raised, ast.Call):
            return f"Raise({'' if raised is None else self._any(raised)},{cause})"
        arguments = [self._message(part) if is_text(part) else self._any(part) for part in raised.args]
        return f"Raise({self._any(raised.func)},{arguments},{self._any(raised.keywords)},{cause})"

    def _on_Assert(self, node: ast.Assert) -> str:
        return f"Assert({self._any(node.test)})"

    def _message(self, text: ast.expr) -> str:
        """Of the words of an error what is more than words: calls that could do something."""
        calls = [part for part in ast.walk(text) if isinstance(part, ast.Call) and not is_quiet(part)]
        return f"text{[self._any(call) for call in calls]}"

    def _on_Import(self, node: ast.Import) -> str:
        return self._imported([alias.name for alias in node.names])

    def _on_ImportFrom(self, node: ast.ImportFrom) -> str:
        self.any_name |= node.names[0].name == "*"
        return self._imported([self._module.absolute(written_in(node), alias.name) for alias in node.names])

    def _imported(self, paths: list[str]) -> str:
        self.executes.update(path for path in paths if Outer(path).own)
        return f"Import({','.join(paths)})"

    def _on_Global(self, node: ast.Global) -> str:
        return f"Global({','.join(sorted(node.names))})"

    def _on_Nonlocal(self, node: ast.Nonlocal) -> str:
        return ""

    def _on_ExceptHandler(self, node: ast.ExceptHandler) -> str:
        name = "" if node.name is None else self._spelled(node.name)
        caught = "" if node.type is None else self._any(node.type)
        return f"Except({caught},{name},{self._body(node.body)})"

    def _on_MatchAs(self, node: ast.MatchAs) -> str:
        return f"MatchAs({'' if node.pattern is None else self._any(node.pattern)},{self._spelled(node.name)})"

    def _on_MatchStar(self, node: ast.MatchStar) -> str:
        return f"MatchStar({self._spelled(node.name)})"

    def _on_MatchMapping(self, node: ast.MatchMapping) -> str:
        return f"MatchMapping({self._any(node.keys)},{self._any(node.patterns)},{self._spelled(node.rest)})"

    def _spelled(self, name: str | None) -> str:
        found = "" if name is None else self._name(name)
        return found.path if isinstance(found, Outer) else found

    # Scopes

    def _on_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        before = self._literal
        self._literal = before or reads_locals(node)
        decorators = [self._any(part) for part in node.decorator_list]
        reads = not {decorator_name(part, self._outer_path) for part in node.decorator_list} <= BLIND
        signature = self._signature(node.args, reads)
        returns = self._any(node.returns) if reads and node.returns is not None else ""
        bound = self._spelled(node.name) if self._scopes else node.name
        self._scopes.append(self._function(parameter_names(node.args), node.body))
        kind = "Async" if isinstance(node, ast.AsyncFunctionDef) else ""
        body = self._body(node.body)
        self._scopes.pop()
        self._literal = before
        return f"{kind}Def({node.name},{bound},{decorators},{signature},{returns},{body})"

    _on_AsyncFunctionDef = _on_FunctionDef

    def _outer_path(self, name: str) -> str | None:
        found = self._name(name)
        return found.path if isinstance(found, Outer) else None

    def _on_Lambda(self, node: ast.Lambda) -> str:
        signature = self._signature(node.args, False)
        self._scopes.append(self._function(parameter_names(node.args), [ast.Expr(node.body)]))
        body = self._any(node.body)
        self._scopes.pop()
        return f"Lambda({signature},{body})"

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> str:
        first = self._any(node.generators[0].iter)  # is computed outside
        bound = [name for part in node.generators for name in stored_names(part.target)]
        self._scopes.append(self._numbered(bound))
        generators = [
            f"{self._any(part.target)}{'' if part is node.generators[0] else self._any(part.iter)}"
            f"{self._any(part.ifs)}{part.is_async}"
            for part in node.generators
        ]
        parts = (
            [self._any(node.key), self._any(node.value)] if isinstance(node, ast.DictComp) else [self._any(node.elt)]
        )
        self._scopes.pop()
        return f"{type(node).__name__}({first},{generators},{parts})"

    _on_ListComp = _on_SetComp = _on_GeneratorExp = _on_DictComp = _comprehension

    def _on_ClassDef(self, node: ast.ClassDef) -> str:
        return self._class(node, "all")

    def _class(self, node: ast.ClassDef, annotations: Annotations) -> str:
        decorators = [self._any(part) for part in node.decorator_list]
        bases, keywords = self._any(node.bases), self._any(node.keywords)
        scope = Scope("class", {name: f"Name({name})" for name in bound_names(node.body)}, annotations=annotations)
        nested = bool(self._scopes)
        self._scopes.append(scope)
        left = [
            statement
            for statement in node.body
            if nested or not (isinstance(statement, FUNCTIONS) and statement.name in self._without)
        ]
        body = self._body(left)
        self._scopes.pop()
        return f"Class({node.name},{decorators},{bases},{keywords},{body})"

    def _signature(self, arguments: ast.arguments, annotated: bool) -> str:
        """Parameters by the names that a caller may use, with their defaults; the others by position."""
        kept = {id(part) for part in (*arguments.args, *arguments.kwonlyargs)}
        names = [part.arg if id(part) in kept else "_" for part in all_arguments(arguments)]
        shape = f"{len(arguments.posonlyargs)},{len(arguments.args)},{arguments.vararg is not None}"
        notes = (
            [self._any(part.annotation) for part in all_arguments(arguments) if part.annotation] if annotated else ""
        )
        return (
            f"({shape},{names},{self._any(arguments.defaults)},{[self._any(d) for d in arguments.kw_defaults]},{notes})"
        )

    def _function(self, parameters: list[str], body: list[ast.stmt]) -> Scope:
        scope = self._numbered([*parameters, *bound_names(body)])
        elsewhere = {*parameters, *bound_names([part for part in flat(body) if not is_import(part)])}
        for each in flat(body):
            for name, path in self._module.bound_by(each) if is_import(each) else ():
                if name not in elsewhere:
                    scope.imported[name] = Outer(path)
                elif Outer(path).own:
                    self.paths.add(path)
        for statement in body:
            for part in own_nodes(statement):
                if isinstance(part, ast.Global):
                    scope.globals.update(part.names)
                elif isinstance(part, ast.Nonlocal):
                    scope.nonlocals.update(part.names)
        return scope

    def _numbered(self, names: Iterable[str]) -> Scope:
        depth = len(self._scopes)
        unique = dict.fromkeys(names)
        if self._literal:
            return Scope("function", {name: f"Local({name})" for name in unique})
        return Scope("function", {name: f"L{depth}.{number}" for number, name in enumerate(unique)})


def _names(node: ast.AnnAssign, word: str) -> bool:
    return word in ast.unparse(node.annotation)
