"""`docs/extend.md`: its edits, put into a copy of the project, are all that each addition needs."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/extend.md"
DATA = ROOT / "data/microscopy"
BLOCK = re.compile(r"<!-- (new|end|before|instead): (\S+?)(?: \| (.*?))? -->\n```\w+\n(.*?)```", re.DOTALL)
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


@pytest.fixture
def copy(tmp_path):
    for name in ("tap", "workflow"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def call(folder: Path, *command: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def cells(folder: Path, table: str, row: str) -> dict[str, dict[str, str]]:
    """A row of a published table by column."""
    with (folder / f"paper_tables/{table}.csv").open() as file:
        return {line["column"]: line for line in csv.DictReader(file) if line["row"] == row}


def put(page: Path, root: Path, only: str = "") -> list[str]:
    """Applies a page's blocks to a copy of the project.

    Args:
        page: the page.
        root: of the copy.
        only: paths to take, by a part of them.

    Returns:
        The files that were made or changed.
    """
    text = page.read_text()
    found = BLOCK.findall(text)
    assert len(found) == len(re.findall(r"^```\w", text, re.MULTILINE)), "a block that no comment places"
    names = []
    for kind, name, anchor, code in found:
        if only not in name:
            continue
        path = root / name
        if kind == "new":
            assert not path.exists(), f"{name} is there already"
            path.parent.mkdir(exist_ok=True)
            path.write_text(code)
        elif kind == "end":
            path.write_text((path.read_text() if path.exists() else "") + code)
        else:
            before = path.read_text()
            assert before.count(anchor) == 1, f"{name} holds {anchor!r} {before.count(anchor)} times"
            path.write_text(before.replace(anchor, code + anchor if kind == "before" else code.rstrip("\n")))
        names.append(name)
    return names


def test_the_file_of_the_page_is_a_table_of_workflow_and_audit(project) -> None:
    project.evidence([project.add_cls("dense", 0.9, seed) for seed in (0, 1)])
    shutil.copytree(ROOT / "tap", project.root / "tap", ignore=shutil.ignore_patterns("__pycache__"))
    put(PAGE, project.root, only="tab_gap_to_floor")
    seen = json.loads(call(project.root, sys.executable, "-c", SEEN))
    assert seen["light"]
    assert "tab_gap_to_floor" in seen["group"]
    assert seen["cells"]["cls"] == [["90.00", "measured"], ["3", "stated"]]
    assert seen["measured"] == 1
    assert r"cls & 90.0 & 3 \\" in seen["tex"]
    assert "The paper does not have this table." in seen["tex"]
    assert "Cells: 1 measured, 3 stated (a setting, or text)." in seen["words"]


@pytest.mark.slow
@pytest.mark.long
def test_every_addition_is_seen_in_tables_audit_and_verification(copy):
    if not (DATA / "manifest.json").is_file():
        pytest.skip("needs the data: tap data prepare seg")
    shutil.copytree(DATA, copy / "data/microscopy", ignore=shutil.ignore_patterns("record.json"))
    changed = put(PAGE, copy)
    assert sum(name.startswith("tap/tasks/") for name in changed) == 2, "one package"
    made = ("results/smoke/counts_depth.csv", "results/smoke/audit/audit.json", "all")
    call(copy, "snakemake", "--cores", "2", "--quiet", "all", "--", *made)

    method, dense = cells(copy, "tab_depth", "every_other"), cells(copy, "tab_depth", "dense")
    assert method["rmse"]["name"] == "Every other"
    assert (method["rmse"]["unit"], method["rmse"]["status"]) == ("px", "measured")
    delta = float(method["rmse"]["value"]) - float(dense["rmse"]["value"])
    assert float(method["rmse_delta"]["value"]) == pytest.approx(delta)
    assert float(method["rmse_delta"]["low"]) <= delta <= float(method["rmse_delta"]["high"])
    assert float(method["final_tokens_mean"]["value"]) == 128
    tex = (copy / "paper_tables/tab_depth.tex").read_text()
    assert "changes from no pruning in px" in tex

    ablation = cells(copy, "tab_training_ablation", "warm_end@j")["depth"]
    assert (ablation["unit"], ablation["status"], ablation["in_paper"]) == ("px", "measured", "False")
    folder = copy / "results/smoke/runs/depth/tap/r0.50"
    assert json.loads((folder / "warm_end/s0/run.json").read_text())["spec"]["controller"]["tau_end"] == 0.5
    with (folder / "main/s0/controls.csv").open() as file:
        scales = {line["control"]: line["scale"] for line in csv.DictReader(file) if line["metric"] == "rmse"}
    assert (scales["alpha_1"], scales["alpha_0"]) == ("1.0", "0.0")
    table = cells(copy, "tab_gap_to_floor", "depth")
    assert (table["score"]["unit"], table["seeds"]["status"]) == ("px", "stated")
    assert table["score"]["value"] == dense["rmse"]["value"]
    assert cells(copy, "tab_training_config", "primary")["depth"]["text"] == "RMSE"
    assert cells(copy, "tab_criterion_summary", "coverage")["depth"]["unit"] == "px, lost"
    assert cells(copy, "tab_paired_recovery", "depth_3")["difference"]["status"] == "measured"
    assert cells(copy, "tab_matching_recovery", "key@j")["depth_1"]["status"] == "measured"
    assert cells(copy, "tab_keep_rates", "depth_tap_0.5")["score"]["unit"] == "px"
    with (copy / "paper_figures/fig_all_probes.csv").open() as file:
        assert {line["metric"] for line in csv.DictReader(file)} == {"rmse"}

    page = (copy / "results/smoke/audit/audit.html").read_text()
    for shown in ("tab:depth", "Every other", "tab:gap-to-floor", "Temperature that ends at 0.5"):
        assert shown in page
    assert "counts" in call(copy, "tap", "--help")
    assert "depth/every_other/r0.50/main/s0,128.0" in (copy / "results/smoke/counts_depth.csv").read_text()
    assert json.loads((copy / "results/smoke/counts_depth.record.json").read_text())["job"] == "counts"
    assert "are what their" in call(copy, "tap", "verify")
    again = call(copy, "snakemake", "--dry-run", "--quiet", "rules", "--", *made)
    assert "Nothing to be done" in again or not again.strip()
    (copy / "results/smoke/counts_depth.csv").write_text("edited\n")
    with pytest.raises(AssertionError, match=r"counts_depth\.csv"):
        call(copy, "tap", "verify")
