import ast
from pathlib import Path

import pytest

from tap.config.methods import DENSE, METHODS, TAUGHT
from tap.errors import UserError
from tap.provenance import behind, fingerprint
from tap.provenance.fingerprint import module_exists, reached_modules

BUILT = [name for name in METHODS if module_exists(f"tap.reducers.{name}")]


def reached(monkeypatch, function, *arguments):
    """Modules that a fingerprint covers."""
    seen = []
    monkeypatch.setattr(behind, "code_fingerprint", lambda modules, libraries=(): seen.extend(modules))
    function(*arguments)
    return set(reached_modules(seen))


def test_a_method_is_behind_its_own_jobs_only(monkeypatch):
    assert {"dense", "random", "static", "tap"} <= set(BUILT)
    for method in BUILT:
        modules = reached(monkeypatch, behind.code_of_training, "cls", method)
        teacher = {DENSE} if method in TAUGHT else set()
        others = {f"tap.reducers.{other}" for other in set(BUILT) - {method} - teacher}
        assert f"tap.reducers.{method}" in modules
        assert not modules & others, "one method's code repeats another method's training"


def test_a_task_is_behind_its_own_jobs_only(monkeypatch):
    for function in (behind.code_of_training, behind.code_of_evaluation):
        modules = reached(monkeypatch, function, "cls", "tap")
        assert "tap.core.straight_through" in modules
        assert not [name for name in modules if "segmentation" in name or "pretraining" in name]
    assert "tap.tasks.pretraining.mae" in reached(monkeypatch, behind.code_of_training, "cls", "mae")


def test_an_evaluation_is_not_behind_a_training_but_tables_are_behind_neither(monkeypatch):
    training = reached(monkeypatch, behind.code_of_training, "cls", "tap")
    evaluation = reached(monkeypatch, behind.code_of_evaluation, "cls", "tap")
    assert "tap.profiling.throughput" in evaluation - training
    assert not [name for name in training | evaluation if name.startswith("tap.paper")]


def test_libraries_count(monkeypatch):
    before = behind.code_of_training("cls", "tap")
    monkeypatch.setattr(fingerprint, "version", lambda library: "9.9" if library == "torch" else "1")
    assert behind.code_of_training("cls", "tap") != before


def test_what_is_not_built_is_said_in_words():
    with pytest.raises(UserError, match=r"method: 'nothing' is not built yet; leave it out of tasks\.cls\.methods"):
        behind.code_of_training("cls", "nothing")


def test_what_fetches_data_can_prepare_it():
    for name, module in behind.PREPARED.items():
        tree = ast.parse(Path(*module.split(".")).with_suffix(".py").read_text())
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert [argument.arg for argument in functions["prepare"].args.args[:2]] == ["root", "source"], name
        assert behind.code_of_data(name)
    assert behind.code_of_data("imagenet") != behind.code_of_data("ade20k") != ""
    assert behind.code_of_data("unknown") == ""


def test_imports_by_a_computed_name_are_where_the_names_are_given_otherwise():
    """A fingerprint cannot see them, so there must be no others: what these choose is named in `behind`, or foreign."""
    found = set()
    for path in Path("tap").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
                argument = node.args[0]
                if not isinstance(argument, ast.Constant):
                    found.add(path.as_posix())
    assert found == {
        f"tap/{name}.py"
        for name in ("reducers/registry", "studies/picture", "tasks/openmmlab", "tasks/preparation", "tasks/registry")
    }
