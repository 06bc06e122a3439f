"""Declarations of methods: read without running them, complete, and the only list of methods there is."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tap.config import methods
from tap.config.options import OPTIONS
from tap.errors import UserError
from tap.method_facts import Method, Origin, Row, read_method

NEW = '''"""Keeps the first patches: for a test."""

from __future__ import annotations

from tap.method_facts import Method, Row
from tap.reducers.base import Reducer
from tap.reducers.registry import register

METHOD = Method(readout="common")
ROW = Row("First patches", tasks=("cls", "seg"))


@register(METHOD)
class First(Reducer):
    """Removes nothing, which is enough to be listed, built and trained."""
'''

SETTINGS = '''"""Settings of the test's method."""

from pydantic import Field

from tap.config.strict import Options, Share


class FirstOptions(Options):
    """First patches."""

    slope: Share = Field(0.25, description="for a test")
'''


def test_the_lists():
    """As they stood in one module before each method had its own declaration."""
    every = ("cls", "seg", "det")
    assert {name: facts.tasks for name, facts in methods.METHODS.items()} == {
        "dense": every,
        "random": every,
        "attn_topk": every,
        "evit": ("cls",),
        "dynamicvit": ("cls",),
        "evovit": ("cls",),
        "ats": ("cls",),
        "tome": ("cls", "seg"),
        "diffrate": ("cls", "seg"),
        "algm": ("seg",),
        "dtop": ("seg",),
        "svit": ("det",),
        "cropr": every,
        "static": every,
        "tap": every,
        "tap_f": every,
    }
    assert methods.methods_of("det") == ("dense", "random", "attn_topk", "svit", "cropr", "static", "tap_f", "tap")
    assert methods.COMMON_RECOVERY == ("random", "attn_topk", "diffrate", "static")
    assert methods.LEARNED_RECOVERY == ("tap_f", "tap")
    assert tuple(name for name, facts in methods.METHODS.items() if facts.method.taught) == ("dynamicvit",)
    assert [name for name, facts in methods.METHODS.items() if facts.method.calibrated] == [
        "ats",
        "algm",
        "dtop",
        "svit",
    ]
    assert all(facts.row.in_paper for facts in methods.METHODS.values())
    assert methods.SCORES == {"cls": ("top1",), "seg": ("miou",), "det": ("box_ap", "mask_ap")}


def test_titles_and_options_belong_to_methods():
    titles = [facts.row.title for facts in methods.METHODS.values()]
    assert titles[0] == "No pruning"
    assert titles[-2:] == ["TAP-F (ours)", "TAP-J (ours)"]
    assert len(set(titles)) == len(titles)
    assert set(OPTIONS) <= set(methods.METHODS)


def declaration(folder, method, row):
    file = folder / "tap" / "reducers" / "fresh.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'"""Fresh."""\nimport torch_is_not_imported\n\nMETHOD = {method}\n{row}\n')
    return file


def test_a_declaration_is_read_not_run(tmp_path):
    row = 'ROW = Row("Fresh", tasks=("cls",), order=7, origin=Origin("a/b", "1234567", path="p"))'
    facts = read_method(declaration(tmp_path, "Method(taught=True)", row))
    assert (facts.name, facts.method) == ("fresh", Method(taught=True))
    assert facts.row == Row("Fresh", ("cls",), 7, origin=Origin("a/b", "1234567", path="p"))
    assert facts.row.origin.source == "own code after a/b at 1234567, no licence stated"


@pytest.mark.parametrize(
    ("method", "row", "message"),
    [
        ("Method()", "", "declares METHOD without ROW"),
        (
            "Method()",
            'ROW = Row("F", tasks=("seg",))',
            "METHOD.readout: seg is a dense task, so say what its head reads",
        ),
        (
            'Method(readout="full")',
            'ROW = Row("F", tasks=("cls",))',
            "METHOD.readout: 'full' is none; choose from complete",
        ),
        ("Method()", 'ROW = Row("F", tasks=("depth",))', r"ROW.tasks: \['depth'\] is no task; known are cls, seg, det"),
        ("Method()", 'ROW = Row("F", tasks=())', "ROW.tasks: empty is no task"),
        ("Method()", 'ROW = Row("F", tasks=EVERY)', "fresh.py:5: Row takes plain values by its own names"),
        (
            "Method(thought=True)",
            'ROW = Row("F", tasks=("cls",))',
            "fresh.py:4: Method takes plain values by its own names",
        ),
        ("make()", 'ROW = Row("F", tasks=("cls",))', r"fresh.py:4: write Method\(...\) itself here"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(method, row, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read_method(declaration(tmp_path, method, row))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [False, True])
def test_a_new_method_is_one_file_and_another_one_if_it_has_settings(settings, tmp_path):
    """In a copy of the project, seen by the settings, the schema, the runs, the command line and the registry."""
    for name in ("tap", "workflow"):
        shutil.copytree(name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tap" / "reducers" / "first.py").write_text(NEW)
    if settings:
        (tmp_path / "tap" / "config" / "options" / "first.py").write_text(SETTINGS)
    overrides = "\n  smoke:\n    tasks.cls.methods: [dense, first]\n    tasks.seg.methods: [dense, first]\n"
    overrides += "    tasks.det.methods: [dense, tap]\n"  # TAP-F of one task alone is refused
    overrides += "    tasks.seg.options.first.slope: 0.5\n" if settings else ""
    (tmp_path / "params.yaml").write_text(f"scale: smoke\noverrides:{overrides}")
    code = """
import json, sys
sys.argv = ["tap"]  # as the command line
from tap.config import load_scale
from tap.config.generate import generated_files
from tap.plan.runs import runs_of_table
from tap.plan.specs import endpoint_specs, job_spec
from tap.config.methods import COMMON_RECOVERY, METHODS
cfg = load_scale()
schema = next(text for path, text in generated_files().items() if path.name == "scale.schema.json")
light = "torch" not in sys.modules
from tap.runs import Run
spec = job_spec(cfg, Run("smoke", "seg", "first", 0.5))
print(json.dumps({
    "light": light,
    "order": list(METHODS)[-4:],
    "common": "first" in COMMON_RECOVERY,
    "schema": "first" in json.loads(schema)["$defs"]["TaskConfig"]["properties"]["methods"]["items"]["enum"],
    "runs": [run.id for task in ("cls", "seg") for run in runs_of_table(cfg, task) if run.method == "first"][:1],
    "endpoint": [spec.method for spec in endpoint_specs(cfg, "seg")],
}))
"""
    if settings:
        code += """
from tap.reducers.build import build_encoder
from tap.task_facts import TASKS
reducer = build_encoder(spec, TASKS["seg"]).reducer
print(type(reducer).__name__, reducer.settings.options.slope)
"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told, *built = done.stdout.splitlines()
    assert built == (["First 0.5"] if settings else [])
    found = json.loads(told)
    assert found.pop("endpoint")[0] == "first"
    assert found == {
        "light": True,
        "order": ["first", "static", "tap_f", "tap"],
        "common": True,
        "schema": True,
        "runs": ["cls/first/r0.50/main/s0"],
    }
    shown = subprocess.run(
        [sys.executable, "-m", "tap.cli", "config", "show", "--run", "cls/first/r0.50/main/s0"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "method: first" in shown.stdout, shown.stderr


def test_methods_are_files_of_the_folder():
    files = {file.stem for file in Path("tap/reducers").glob("*.py")}
    assert set(methods.METHODS) <= files
    helpers = "__init__ base build copies costs mask_decoder merging precision registry tap_estimators"
    assert files - set(methods.METHODS) == set(helpers.split())
