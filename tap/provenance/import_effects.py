"""Whether a statement of a module may do more, when the module is imported, than to bind its names.

Registrations, calls and changes of other objects do. What is not known to be harmless counts as doing more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tap.provenance.definitions import PLAIN_BASES, Place, Project
from tap.provenance.modules import BLIND, FUNCTIONS, Module, Outer, decorator_name, dotted_name, is_string

_HARMLESS_CALLS: Final = frozenset(
    {
        *("tuple", "list", "dict", "set", "frozenset", "range", "len", "sorted", "min", "max", "sum", "zip", "map"),
        *("enumerate", "reversed", "float", "int", "str", "bool", "bytes", "abs", "round"),
        *("re.compile", "typing.TypeVar", "typing.NewType", "pathlib.Path", "decimal.Decimal", "dataclasses.field"),
        *("types.MappingProxyType", "numpy.linspace", "torch.tensor"),
    }
)
_HARMLESS_METHODS: Final = {"items", "keys", "values", "with_name", "resolve", "split", "join", "lower", "upper"}
_MAKERS: Final = {"__init__", "__new__", "__post_init__"}
_PLAIN_TARGETS = ast.Name | ast.Tuple | ast.expr_context


def does_more(project: Project, module: Module, node: ast.stmt) -> bool:
    """Whether importing the module does more through a statement than to bind its names."""
    return not _is_harmless(project, module, node)


def _is_harmless(project: Project, module: Module, node: ast.stmt) -> bool:
    if isinstance(node, FUNCTIONS):
        defaults = (part for part in (*node.args.defaults, *node.args.kw_defaults) if part is not None)
        return _decorators(module, node) <= BLIND and all(_only_computes(project, module, part) for part in defaults)
    if isinstance(node, ast.ClassDef):
        foreign, own = project.bases(Place(module.name, node.name))
        return (
            _decorators(module, node) <= BLIND
            and foreign <= PLAIN_BASES
            and not node.keywords
            and not any(_hears_of_subclasses(project, base) for base in own)
            and all(_is_harmless(project, module, part) for part in node.body)
        )
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        plain = all(isinstance(part, _PLAIN_TARGETS) for target in targets for part in ast.walk(target))
        return plain and (node.value is None or _only_computes(project, module, node.value))
    return isinstance(node, ast.Pass) or is_string(node)


def _decorators(module: Module, node: ast.stmt) -> set[str]:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    names = {decorator_name(part, module.path_of) for part in decorators}
    return {name for name in names if not name.endswith(".setter")}


def _hears_of_subclasses(project: Project, base: Place) -> bool:
    """Whether a class is called when another derives from it."""
    return any(
        isinstance(part, FUNCTIONS) and part.name == "__init_subclass__"
        for statement in project.module(base.module).bound.get(base.name or "", ())
        if isinstance(statement.node, ast.ClassDef)
        for part in statement.node.body
    )


def _only_computes(project: Project, module: Module, value: ast.expr) -> bool:
    """Whether an expression gives a value and does nothing else."""
    return all(
        isinstance(part, ast.Call) and _is_harmless_call(project, module, part)
        for part in _evaluated(value)
        if isinstance(part, ast.Call | ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)
    )


def _is_harmless_call(project: Project, module: Module, call: ast.Call) -> bool:
    called = dotted_name(call.func, module.path_of)
    if called is not None and Outer(called).own:
        return _only_keeps(project, project.place(called))
    return called in _HARMLESS_CALLS or (isinstance(call.func, ast.Attribute) and call.func.attr in _HARMLESS_METHODS)


def _only_keeps(project: Project, target: Place) -> bool:
    """Whether a name is a dataclass or named tuple that keeps what it is given, and does nothing else."""
    home = project.module(target.module)
    nodes = [statement.node for statement in home.bound.get(target.name or "", ())]
    return bool(nodes) and all(
        isinstance(node, ast.ClassDef)
        and not project.bases(target)[1]
        and project.annotations(home, node) == "fields"
        and not {part.name for part in node.body if isinstance(part, FUNCTIONS)}
        & {"__init__", "__new__", "__post_init__"}
        for node in nodes
    )


def _evaluated(value: ast.AST) -> Iterator[ast.AST]:
    """Parts of an expression that are computed with it: not the bodies of lambdas."""
    yield value
    for child in ast.iter_child_nodes(value):
        if not isinstance(value, ast.Lambda) or child is not value.body:
            yield from _evaluated(child)
