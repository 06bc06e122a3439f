import subprocess
import sys

import pytest

from tap.provenance import fingerprint
from tap.provenance.fingerprint import code_fingerprint, hash_of, reached_modules

FILES = {
    "tap/__init__.py": "from tap.heavy import model\n",
    "tap/heavy.py": "model = 1\n",
    "tap/errors.py": "class UserError(Exception): ...\n",
    "tap/core/__init__.py": "",
    "tap/core/budget.py": '"""Budget."""\n\ndef keep(n):\n    """How many."""\n    # half\n    return n // 2\n',
    "tap/core/noise.py": "from tap.errors import UserError\nLEVEL = 0.5\n",
    "tap/core/late.py": "X = 1\n",
    "tap/core/dynamic.py": "Y = 1\n",
    "tap/reducers/__init__.py": "NAMES = ()\n",
    "tap/reducers/base.py": "from ..core.budget import keep\nimport torch\n",
    "tap/reducers/random.py": "from . import base\nfrom tap.core import noise\nimport tap.core.late as late\n",
    "tap/reducers/names.py": "from tap.reducers import NAMES\n",
    "tap/job.py": (
        "import importlib\n"
        "def run():\n"
        "    from tap.reducers import random\n"
        "    return importlib.import_module('tap.core.dynamic')\n"
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


def test_follows_relative_absolute_nested_and_dynamic_imports(project):
    assert reached_modules(["tap.job"], project) == [
        "tap.core.budget",
        "tap.core.dynamic",
        "tap.core.late",
        "tap.core.noise",
        "tap.job",
        "tap.reducers.base",
        "tap.reducers.random",
    ]


def test_a_package_counts_only_when_a_name_is_taken_from_it(project):
    assert reached_modules(["tap.reducers.base"], project) == ["tap.core.budget", "tap.reducers.base"]
    assert reached_modules(["tap.reducers.names"], project) == ["tap.reducers", "tap.reducers.names"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# half", "# a half of all, rounded down"),
        ('"""How many."""', '"""How many patches stay."""'),
        ('    """How many."""\n', ""),
        ('"""Budget."""\n\n', ""),
        ("n // 2", "(n  //  2)"),
        ("def keep(n):", "\n\ndef keep(\n    n,\n):"),
    ],
)
def test_comments_docstrings_and_layout_change_nothing(project, old, new):
    before = code_fingerprint(["tap.job"], root=project)
    edit(project, "tap/core/budget.py", old, new)
    assert code_fingerprint(["tap.job"], root=project) == before


@pytest.mark.parametrize(
    ("old", "new"), [("n // 2", "n // 3"), ("n // 2", "n / 2"), ("keep(n)", "keep(n, m=1)"), ("return", "yield")]
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
    (project / "tap/core/late.py").write_text("import tap.gone\n")
    with pytest.raises(ModuleNotFoundError, match=r"tap\.gone"):
        code_fingerprint(["tap.core.late"], root=project)


def test_nothing_is_imported():
    code = (
        "import sys; from tap.provenance.fingerprint import code_fingerprint as f;"
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
