"""Imports go one way; read from the syntax trees, so that an import inside a function counts as well."""

import ast
import graphlib
import sys
from pathlib import Path

import pytest

PACKAGE = Path("tap")
LEAVES = {"config", "drawing", "errors", "method_facts", "plan", "provenance", "runs", "seeds", "task_facts"}
LAYERS = [
    {"core"},
    {"encoder", "criteria"},
    {"reducers"},
    {"tasks"},
    {"engine"},
    {"controls", "studies", "profiling"},
    {"paper"},
    {"jobs"},
    {
        "factory",
        "joint_factory",
        "hub",
        "huggingface",
        "onnx_export",
        "recertify",
        "timm_models",
        "vision_transformer",
        "vit_checks",
    },
    {"cli", "openmmlab"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
CORE_MAY_IMPORT = {*sys.stdlib_module_names, "torch", "tap"}


def imports(path):
    """Dotted names of all modules that a file imports."""
    package = ".".join(path.with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            yield ".".join([*above, node.module or ""]).rstrip(".")
        elif isinstance(node, ast.ImportFrom) and node.module == "tap":
            yield from (f"tap.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def part_of(module):
    """The package or module directly below `tap`."""
    return module.split(".")[1] if module.startswith("tap.") else None


@pytest.mark.parametrize("path", FILES, ids=str)
def test_nothing_imports_from_above(path):
    own = part_of(".".join(path.with_suffix("").parts))
    for module in imports(path):
        other = part_of(module)
        if other is None or other == own or other in LEAVES:
            continue
        assert own not in LEAVES, f"{own} is for everyone and may import leaves only, not {module}"
        assert RANK[other] <= RANK[own], f"{own} may not import {module}"


@pytest.mark.parametrize("path", [path for path in FILES if path.parts[1] == "config"], ids=str)
def test_settings_know_no_runs(path):
    assert not {"plan", "jobs"} & {part_of(module) for module in imports(path)}


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").glob("*.py")), ids=str)
def test_the_core_imports_torch_and_nothing_else(path):
    assert {module.split(".")[0] for module in imports(path)} <= CORE_MAY_IMPORT


def modules_imported(path):
    """Files of the package that a file imports: a name taken from a folder is a module of it, where there is one."""
    folder = ".".join(path.parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports relative to {folder}"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            module = Path(*name.split("."))
            if name.startswith("tap."):
                files = [module.with_suffix(".py"), module / "__init__.py"]
                files += [module.parent.with_suffix(".py"), module.parent / "__init__.py"]
                yield next(file for file in files if file.is_file())


def circle(files):
    """Files that import each other in a circle; None where there is none."""
    graph = {path: set(modules_imported(path)) - {path} for path in files}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [path.as_posix() for path in error.args[1]]
    return None


def test_no_modules_import_each_other_in_a_circle():
    assert circle(FILES) is None


def test_a_circle_would_be_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("tap/core")
    folder.mkdir(parents=True)
    for name, text in (("a", "from tap.core import b"), ("b", "def f():\n    from tap.core.c import g"), ("c", "")):
        (folder / f"{name}.py").write_text(f"{text}\n")
    assert circle(sorted(folder.glob("*.py"))) is None
    (folder / "c.py").write_text("import tap.core.a\n")
    assert circle(sorted(folder.glob("*.py"))) is not None


def test_every_part_of_the_package_has_a_layer():
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES}
    assert parts <= LEAVES | set(RANK)


def test_an_import_from_above_would_be_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tap" / "core").mkdir(parents=True)
    path = Path("tap/core/bad.py")
    path.write_text("def f():\n    from tap.engine import loop\n    from ..paper import tidy\n    import tap.cli\n")
    assert {part_of(module) for module in imports(path)} == {"engine", "paper", "cli"}
