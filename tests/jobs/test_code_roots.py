import ast
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.config.datasets import PREPARED
from tap.config.methods import DENSE, METHODS
from tap.errors import UserError
from tap.jobs import code_roots
from tap.jobs.registry import JOBS
from tap.provenance import fingerprint
from tap.provenance.fingerprint import module_exists, reached_modules
from tap.runs import Run

BUILT = [name for name in METHODS if module_exists(f"tap.reducers.{name}")]
CFG = load_scale("smoke")


def reached(job, task, method):
    """Modules that the fingerprint of a job on a run covers."""
    return set(reached_modules(JOBS[job].roots(CFG, Run("smoke", task, method))))


def test_a_method_is_behind_its_own_jobs_only():
    assert {"dense", "random", "static", "tap"} <= set(BUILT)
    for method in BUILT:
        modules = reached("train", "cls", method)
        teacher = {DENSE} if METHODS[method].method.taught else set()
        derived = {"tap_f": {"tap"}}.get(method, set())  # TAP-F is TAP on a frozen backbone
        others = {f"tap.reducers.{other}" for other in set(BUILT) - {method} - teacher - derived}
        assert f"tap.reducers.{method}" in modules
        assert not modules & others, "one method's code repeats another method's training"


def test_a_task_is_behind_its_own_jobs_only():
    for job in ("train", "evaluate"):
        modules = reached(job, "cls", "tap")
        assert "tap.core.straight_through" in modules
        assert not [name for name in modules if "segmentation" in name or "tasks.pretraining" in name]
    of_all = reached("train", "seg", "mae")  # whose images are those of two tasks
    assert {"tap.tasks.pretraining.mae", "tap.tasks.classification.data", "tap.engine.joint"} <= of_all
    assert "tap.engine.joint" not in reached("train", "cls", "tap")


def test_an_evaluation_is_not_behind_a_training_but_tables_are_behind_neither():
    training, evaluation = reached("train", "cls", "tap"), reached("evaluate", "cls", "tap")
    assert "tap.studies.evaluation" in evaluation - training
    assert not [name for name in training | evaluation if name.startswith("tap.profiling")], "they measure no time"
    assert "tap.engine.loop" in training - evaluation
    assert not [name for name in training | evaluation if name.startswith(("tap.paper", "tap.jobs"))]


def test_libraries_count(monkeypatch):
    run = Run("smoke", "cls", "tap", 0.5)
    before = JOBS["train"].code(CFG, run)
    monkeypatch.setattr(fingerprint, "version", lambda library: "9.9" if library == "torch" else "1")
    assert JOBS["train"].code(CFG, run) != before


def test_what_is_not_built_is_said_in_words():
    with pytest.raises(UserError, match=r"method: 'nothing' is not built yet; leave it out of tasks\.cls\.methods"):
        code_roots.of_model("cls", "nothing")


def test_what_fetches_data_can_prepare_it():
    for name, module in PREPARED.items():
        tree = ast.parse(Path(*module.split(".")).with_suffix(".py").read_text())
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert [argument.arg for argument in functions["prepare"].args.args[:2]] == ["root", "source"], name
        assert code_roots.of_data(name) == (module,)
    assert code_roots.of_data("imagenet") != code_roots.of_data("ade20k") != ()
    assert code_roots.of_data("unknown") == ()


def test_imports_by_a_computed_name_are_where_the_names_are_given_otherwise():
    """A fingerprint cannot see them: what these choose is named in `code_roots`, or foreign, or no part of a result."""
    found = set()
    for path in Path("tap").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
                argument = node.args[0]
                if not isinstance(argument, ast.Constant):
                    found.add(path.as_posix())
    assert found == {
        f"tap/{name}.py"
        for name in (
            "config/options/__init__",
            "jobs/registry",
            "jobs/warm",
            "paper/figures/build",
            "paper/tables/build",
            "recertify/driver",
            "reducers/registry",
            "studies/picture",
            "studies/picturing",
            "tasks/openmmlab",
            "tasks/preparation",
            "tasks/registry",
        )
    }
