"""A new table is one file: the one of docs/extend.md, put into a copy of the package."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tap.errors import UserError
from tap.paper.listing import declared
from tap.paper.tables.build import build_table

ROOT = Path(__file__).parents[3]
SEEN = """
import json, sys
from pathlib import Path
sys.argv[0] = "tap"  # as the command line and the workflow, which start without waiting for torch
from tap.paper.tables.names import groups
light = not {"torch", "pandas", "matplotlib"} & set(sys.modules)
from tap.paper.audit.beside import tables_beside
from tap.paper.tables.build import build_table
files = build_table("tab:gap-to-floor", "desk", Path("out"))
found = [table for table in tables_beside(Path("out")) if table.label == "tab:gap-to-floor"][0]
cells = {line.key: [ours and [ours.text, ours.status] for _, ours in line.cells] for line in found.lines}
print(json.dumps({"light": light, "group": groups()["rates"], "cells": cells, "measured": found.further,
                  "tex": files[0].read_text(), "words": files[3].read_text()}))
"""


def test_the_file_of_the_page_is_a_table_of_workflow_and_audit(project) -> None:
    project.evidence([project.add_cls("dense", 0.9, seed) for seed in (0, 1)])
    shutil.copytree(ROOT / "tap", project.root / "tap", ignore=shutil.ignore_patterns("__pycache__"))
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/extend.md").read_text(), re.DOTALL)
    (project.root / "tap/paper/tables/tab_gap_to_floor.py").write_text(code)
    environment = {"PYTHONPATH": str(project.root), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", SEEN]
    done = subprocess.run(command, cwd=project.root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert seen["light"]
    assert "tab_gap_to_floor" in seen["group"]
    assert seen["cells"]["cls"] == [["90.00", "measured"], ["2", "stated"]]
    assert seen["measured"] == 1
    assert r"cls & 90.0 & 2 \\" in seen["tex"]
    assert "The paper does not have this table." in seen["tex"]
    assert "Cells: 1 measured, 3 stated (a setting, or text)." in seen["words"]


def test_a_file_that_does_not_say_what_it_needs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tab_x.py").write_text("TABLE = None\n")
    with pytest.raises(UserError, match=r"tab_x.py: must say what it is made from: READS = 'rates' or 'settings'"):
        declared(tmp_path, "tab_", ("rates", "settings"))
    (tmp_path / "tab_x.py").write_text("READS = 'rates'\n")
    assert declared(tmp_path, "tab_", ("rates", "settings")) == {"tab_x": "rates"}


def test_an_unknown_table_names_the_known_ones_the_nearest_first(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"table 'tab_memry': there is none of this name; there are tab_memory, "):
        build_table("tab_memry", "desk", tmp_path)
