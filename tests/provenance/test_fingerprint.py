import subprocess
import sys

import pytest

from tap.provenance import fingerprint
from tap.provenance.fingerprint import code_fingerprint, hash_of, reached_definitions, reached_modules

FILES = {
    "tap/__init__.py": "from tap.heavy import model\nmodel.install()\n",
    "tap/heavy.py": "model = 1\n",
    "tap/errors.py": "class UserError(Exception): ...\n",
    "tap/core/__init__.py": "",
    "tap/shared/__init__.py": "from tap.core.budget import keep as keep_patches\n",
    "tap/core/budget.py": (
        '"""Budget."""\n\nHALF = 2\n\ndef keep(n):\n    """How many."""\n    # half\n    return n // HALF\n\n'
        "def spend(n):\n    return -n\n"
    ),
    "tap/core/noise.py": "from tap.errors import UserError\nLEVEL = 0.5\nOTHER = 1\n",
    "tap/core/late.py": "X = 1\nY = 2\n",
    "tap/core/dynamic.py": "Y = 1\n",
    "tap/reducers/__init__.py": "NAMES = ()\n",
    "tap/reducers/registry.py": "KNOWN = {}\ndef register(cls):\n    KNOWN[cls.__name__] = cls\n    return cls\n",
    "tap/reducers/base.py": "from ..core.budget import keep\nimport torch\n\ndef half(n):\n    return keep(n)\n",
    "tap/reducers/random.py": (
        "from . import base\nfrom tap.core import noise\nimport tap.core.late as late\n"
        "from tap.reducers.registry import register\n\n"
        "@register\nclass Random:\n    level = noise.LEVEL\n    def run(self):\n        return base.half(late.X)\n"
    ),
    "tap/reducers/names.py": "from tap.reducers import NAMES\ndef names():\n    return NAMES\n",
    "tap/reducers/passed.py": "from tap import shared\ndef passed():\n    return shared.keep_patches(1)\n",
    "tap/job.py": (
        "import importlib\n"
        "def run():\n"
        "    from tap.reducers import random\n"
        "    importlib.import_module('tap.core.dynamic')\n"
        "    return random.Random()\n"
    ),
}


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def edit(project, name, old, new):
    text = (project / name).read_text()
    assert old in text
    (project / name).write_text(text.replace(old, new))


def test_follows_names_through_relative_absolute_nested_and_dynamic_imports(project):
    assert reached_definitions(["tap.job"], project) == [
        "tap.core.budget:HALF",
        "tap.core.budget:keep",
        "tap.core.dynamic:*",
        "tap.core.dynamic:Y",
        "tap.core.late:X",
        "tap.core.noise:LEVEL",
        "tap.job:run",
        "tap.reducers.base:half",
        "tap.reducers.base:import torch",
        "tap.reducers.random:Random",
        "tap.reducers.registry:KNOWN",
        "tap.reducers.registry:register",
    ]
    assert reached_definitions(["tap.reducers.base:half"], project) == [
        "tap.core.budget:HALF",
        "tap.core.budget:keep",
        "tap.reducers.base:half",
        "tap.reducers.base:import torch",
    ]


def test_a_package_counts_only_with_what_is_taken_from_it(project):
    assert reached_modules(["tap.reducers.base"], project) == ["tap.core.budget", "tap.reducers.base"]
    assert reached_definitions(["tap.reducers.names"], project) == ["tap.reducers.names:names", "tap.reducers:NAMES"]
    assert "tap.core.budget:keep" in reached_definitions(["tap.reducers.passed"], project)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# half", "# a half of all, rounded down"),
        ('"""How many."""', '"""How many patches stay."""'),
        ('    """How many."""\n', ""),
        ('"""Budget."""\n\n', ""),
        ("n // HALF", "(n  //  HALF)"),
        ("def keep(n):", "def keep(n: int) -> int:"),
        ("HALF = 2", "HALF: int = 2"),
        ("return -n", "return n"),
        ("def keep(n):", "\n\ndef keep(\n    n,\n):"),
    ],
)
def test_what_decides_nothing_and_what_is_not_reached_change_nothing(project, old, new):
    before = code_fingerprint(["tap.job"], root=project)
    edit(project, "tap/core/budget.py", old, new)
    assert code_fingerprint(["tap.job"], root=project) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("HALF = 2", "HALF = 3"),
        ("n // HALF", "n / HALF"),
        ("def keep(n)", "def keep(n, m=1)"),
        ("def keep(n):", "def keep(m, n=2):"),
        ("return n", "yield n"),
        ("HALF = 2", "HALF = 2\nprint(HALF)"),
        ("def spend", "@print\ndef spend"),
    ],
)
def test_changed_code_changes_exactly_what_reaches_it(project, old, new):
    modules = ["tap.job", "tap.reducers.random", "tap.reducers.base", "tap.core.noise", "tap.core.budget"]
    before = {name: code_fingerprint([name], root=project) for name in modules}
    edit(project, "tap/core/budget.py", old, new)
    changed = {name for name in modules if code_fingerprint([name], root=project) != before[name]}
    assert changed == {"tap.job", "tap.reducers.random", "tap.reducers.base", "tap.core.budget"}


def test_a_function_of_only_a_docstring_equals_pass(project):
    (project / "tap/core/late.py").write_text('def f():\n    """Doc."""\n')
    before = code_fingerprint(["tap.core.late"], root=project)
    (project / "tap/core/late.py").write_text("def f():\n    pass\n")
    assert code_fingerprint(["tap.core.late"], root=project) == before


def test_wording_of_errors_is_no_code_of_a_job(project):
    before = code_fingerprint(["tap.core.noise"], root=project)
    edit(project, "tap/errors.py", "Exception", "ValueError")
    assert code_fingerprint(["tap.core.noise"], root=project) == before


def test_library_versions_count_in_any_order(monkeypatch):
    from tap.provenance import fingerprint

    plain = code_fingerprint(["tap.seeds"])
    known = code_fingerprint(["tap.seeds"], ["torch", "numpy"])
    assert known == code_fingerprint(["tap.seeds"], ["numpy", "torch", "torch"])
    assert known != plain
    monkeypatch.setattr(fingerprint, "version", lambda library: "9")
    assert code_fingerprint(["tap.seeds"], ["torch", "numpy"]) != known


def test_a_missing_module_is_an_error(project):
    with pytest.raises(ModuleNotFoundError, match=r"tap\.nothing"):
        code_fingerprint(["tap.nothing"], root=project)
    (project / "tap/core/late.py").write_text("import tap.core.gone.too\n")
    with pytest.raises(ModuleNotFoundError, match=r"tap\.core\.gone"):
        code_fingerprint(["tap.core.late"], root=project)
    with pytest.raises(LookupError, match=r"module 'tap\.job' defines no 'walk'"):
        code_fingerprint(["tap.job:walk"], root=project)


REACHING_TOO_MUCH = {
    "the module as an object": "from tap.core import late\ndef run(name):\n    return getattr(late, name)\n",
    "a module by name": "import importlib\ndef run():\n    return importlib.import_module('tap.core.late').X\n",
    "a star": "from tap.core.late import *\ndef run():\n    return X\n",
}


@pytest.mark.parametrize("text", REACHING_TOO_MUCH.values(), ids=REACHING_TOO_MUCH)
def test_where_reaching_cannot_be_decided_the_whole_module_counts(project, text):
    (project / "tap/open.py").write_text(text)
    before = code_fingerprint(["tap.open"], root=project)
    edit(project, "tap/core/late.py", "Y = 2", "Y = 3")
    assert code_fingerprint(["tap.open"], root=project) != before


@pytest.mark.parametrize(
    "call", ["globals()[name]", "eval(name)", "sys.modules[__name__]", "importlib.import_module(name)"]
)
def test_a_module_that_computes_names_counts_whole(project, call):
    text = f"import sys, importlib\ndef run(name):\n    return {call}\n\ndef other():\n    return 1\n"
    (project / "tap/open.py").write_text(text)
    before = code_fingerprint(["tap.open:run"], root=project)
    edit(project, "tap/open.py", "return 1", "return 2")
    assert code_fingerprint(["tap.open:run"], root=project) != before


EFFECTS = ["print(1)", "KNOWN['a'] = 1", "late.X = 3", "X = print(2)", "for _ in (): pass", "X += 1", "import json"]


@pytest.mark.parametrize("statement", EFFECTS)
def test_what_an_imported_module_does_on_import_counts(project, statement):
    """Also of a module of which no name is used."""
    (project / "tap/effect.py").write_text("from tap.core import late\nKNOWN = {}\nX = 1\n")
    (project / "tap/open.py").write_text("import tap.effect\ndef run():\n    return 1\n")
    before = code_fingerprint(["tap.open:run"], root=project)
    (project / "tap/effect.py").write_text(f"from tap.core import late\nKNOWN = {{}}\nX = 1\n{statement}\n")
    assert code_fingerprint(["tap.open:run"], root=project) != before
    (project / "tap/effect.py").write_text("from tap.core import late\nKNOWN = {'a': 1}\nX = 2\nY = len(KNOWN)\n")
    assert code_fingerprint(["tap.open:run"], root=project) == before


INTERFACE = """
from abc import ABC, abstractmethod
class Task(ABC):
    @abstractmethod
    def loss(self): ...
    def score(self):
        return 1
class Own(Task):
    def loss(self):
        return self.part()
    def part(self):
        return 2
    def score(self):
        return 3
def train(task):
    return task.loss()
def judge(task):
    return {judged}
"""


@pytest.mark.parametrize("judged", ["task.score()", "getattr(task, 'score')()", "getattr(task, task.name)()"])
def test_a_method_of_an_interface_counts_where_its_name_is_used(project, judged):
    (project / "tap/tasks.py").write_text(INTERFACE.format(judged=judged))
    train, judge = (["tap.tasks:Own", f"tap.tasks:{name}"] for name in ("train", "judge"))
    before = [code_fingerprint(roots, root=project) for roots in (train, judge)]
    edit(project, "tap/tasks.py", "return 3", "return 4")
    after = [code_fingerprint(roots, root=project) for roots in (train, judge)]
    assert [old != new for old, new in zip(before, after, strict=True)] == [False, True]
    edit(project, "tap/tasks.py", "return 2", "return 5")
    assert code_fingerprint(train, root=project) != after[0], "through `self`"


def test_a_class_that_libraries_call_counts_whole(project):
    text = "from torch import nn\nclass Net(nn.Module):\n    def extra_repr(self):\n        return 1\n"
    (project / "tap/net.py").write_text(text)
    before = code_fingerprint(["tap.net:Net"], root=project)
    edit(project, "tap/net.py", "return 1", "return 2")
    assert code_fingerprint(["tap.net:Net"], root=project) != before


def test_nothing_is_imported():
    code = (
        "import sys; sys.argv = ['tap'];"  # as the command line
        "from tap.provenance.fingerprint import code_fingerprint as f;"
        "f(['tap.encoder.attention'], ['torch']); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_fingerprint_says_which_versions_it_covers(project, monkeypatch):
    monkeypatch.setattr(fingerprint, "version", lambda library: {"torch": "2.0"}.get(library, "1.1"))
    before = code_fingerprint(["tap.core.budget"], ["torch", "numpy"], project)
    assert before.split()[1:] == ["numpy==1.1", "torch==2.0"]
    assert hash_of(before) == before.split()[0]
    monkeypatch.setattr(fingerprint, "version", lambda library: "2.1")
    assert hash_of(code_fingerprint(["tap.core.budget"], ["torch", "numpy"], project)) != hash_of(before)


def test_the_variable_of_a_comprehension_is_no_name_of_its_module(tmp_path):
    (tmp_path / "tap").mkdir()
    (tmp_path / "tap" / "__init__.py").write_text("")
    (tmp_path / "tap" / "facts.py").write_text(
        "ALL = {metric: 1 for metric in 'ab'}\n\ndef find(metrics):\n    return [metric for metric in metrics]\n"
    )
    assert reached_definitions(["tap.facts:find"], tmp_path) == ["tap.facts:find"]
    assert "tap.facts:ALL" in reached_definitions(["tap.facts"], tmp_path)
