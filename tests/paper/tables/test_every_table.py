"""Tables cell by cell: what was measured or set, and dashes elsewhere."""

import io
import shutil
from pathlib import Path

import pandas as pd
import pytest

from tap.core.accounting import controller_parameters
from tap.paper.audit.beside import tables_beside
from tap.paper.evidence import Evidence
from tap.paper.reported import load_reported
from tap.paper.tables.build import load_table, render_table
from tap.paper.tables.names import groups, names
from tap.paper.tables.render import CELL_COLUMNS
from tap.paper.tables.table import Status, fill, stated
from tap.plan.results import tidy_path

ROOT = Path(__file__).parents[3]


def texts(name: str, evidence: Evidence) -> dict[str, str]:
    return {suffix: content.decode() for suffix, content in render_table(name, evidence).items()}


@pytest.fixture
def measured(project) -> Evidence:
    """Two seeds of no pruning and of TAP-J at two rates, and a profile of one of them."""
    runs = [project.add_cls("dense", 0.9, seed) for seed in (0, 1)]
    runs += [project.add_cls("tap", 0.8 + 0.01 * seed, seed) for seed in (0, 1)]
    project.profile("cls", {"tap": 1.31})
    runs += [project.add_cls("tap", 0.7, 0, rate=0.3)]
    return project.evidence(runs)


def rows_of(tex: str) -> dict[str, list[str]]:
    lines = [line.removesuffix(r" \\") for line in tex.splitlines() if line.endswith(r"\\") and "&" in line]
    return {line.split(" & ")[0] + line.split(" & ")[1]: line.split(" & ")[1:] for line in lines}


@pytest.mark.parametrize("name", names())
def test_every_table_has_the_papers_rows_and_only_known_columns(name: str, measured: Evidence) -> None:
    table = load_table(name)
    filled = fill(table, measured)
    keys = [column.key for column in filled.layout.columns]
    shown = [key for head in table.heads for key in head.keys]
    assert set(shown) <= set(keys)
    assert {key for _, key in filled.cells} <= set(keys)
    if table.reported is not None:
        assert [row.key for row in filled.layout.rows if row.in_paper] == [row.key for row in table.reported.rows]
    contents = texts(name, measured)
    body = contents[".tex"].split(r"\midrule", 1)[1]
    assert body.count(r"\\") == len(filled.layout.rows)
    frame = pd.read_csv(io.StringIO(contents[".csv"]))
    assert list(frame.columns) == list(CELL_COLUMNS)
    assert not frame.duplicated(["row", "column"]).any()
    assert {"measured", "recomputed", "stated", "missing"} >= set(frame["status"])
    assert (frame["status"] == "measured").eq(frame["runs"].notna()).all()
    assert contents[".tex"].isascii()


def test_every_table_is_in_one_group() -> None:
    assert set(groups()) == {"runs", "main", "rates", "profiles", "probes", "controls", "settings"}
    assert len(names()) == len(set(names())) >= 29
    assert groups()["runs"] == ["tab_cls", "tab_seg", "tab_det"]


def test_keep_rates_of_the_runs(measured: Evidence) -> None:
    tex = texts("tab_keep_rates", measured)[".tex"]
    rows = rows_of(tex)
    assert rows["Cls J0.5"] == ["0.5", r"80.5$\pm$0.71", "131", "--", "0.30"]
    assert rows["Cls J0.3"] == ["0.3", "70.0", "--", "--", "--"]
    assert "Where an SD is missing: one seed, so no SD." in tex
    assert "-- has not been measured." in tex
    assert rows["Cls J0.7"] == ["0.7", "--", "--", "--", "--"]
    assert rows["Det F0.7"] == ["0.7", "--", "--", "--", "--"]


def test_operating_points_and_memory(measured: Evidence) -> None:
    cells = load_table("tab_verified_main").cells(measured)
    assert cells["cls_tap", "score_delta"].mean == pytest.approx(-9.5)
    assert cells["cls_tap", "score_delta"].interval.high < 0
    assert ("cls_tap", "full_images_per_second") not in cells
    cells = load_table("tab_stability_memory").cells(measured)
    assert cells["cls", "change_j"].mean == pytest.approx(-25.0)
    assert cells["cls", "sd_j"].mean == pytest.approx(0.7071, abs=1e-3)
    assert {row for row, _ in cells} == {"cls"}
    memory = load_table("tab_memory").cells(measured)
    assert {key: value for key, value in memory.items() if key in cells} == {
        key: value for key, value in cells.items() if key[1][:2] not in ("sc", "sd")
    }
    assert (memory["cls", "weights_gb_j"].mean, memory["cls", "peak_gb_j"].mean) == (0.2, 0.3)


def test_components_of_a_profile_and_what_their_sum_says(measured: Evidence, project) -> None:
    cells = load_table("tab_latency_breakdown").cells(measured)
    assert (cells["register", "cls_ms"].mean, cells["total", "cls_ms"].mean) == (1.0, 7.1)
    assert cells["total", "cls_percent"].mean == 98.0
    assert "further than 5 %" not in texts("tab_latency_breakdown", measured)[".tex"]
    names = dict.fromkeys(("register", "ranking", "matching", "packing", "encoder", "reconstruction", "head"), 1.0)
    off = {"ms": names, "percent": names, "end_to_end_ms": 7.0, "sum_percent": 109.0, "within": False}
    project.profile("cls", {"tap": 1.31}, components=off)
    again = Evidence("desk", measured.root)
    assert r"further than 5 \% from that pass: cls +9 \%" in texts("tab_latency_breakdown", again)[".tex"]


def test_what_fills_missing_speeds_is_said(measured: Evidence) -> None:
    note = load_table("tab_memory").note(measured)
    assert "seg, det have not been measured here: `snakemake profile`" in note


def test_growth_has_a_row_for_each_size_and_says_where_matching_matters(project) -> None:
    protocol = {"dtype": "fp32", "width": 192}
    point = {
        "ms": 3.0,
        "dense_ms": 4.0,
        "speedup": 1.33,
        "peak_mib": 5.0,
        "dense_peak_mib": 8.0,
        "batch": 1,
        "rate": 0.5,
    }
    points = [
        {**point, "axis": "patches", "patches": count, "matching_percent": share}
        for count, share in ((196, 1.0), (4096, 6.0), (16384, 20.0))
    ]
    points.append({"axis": "batch", "patches": 196, "batch": 256, "rate": 0.5, "out_of_memory": True})
    about = {"device": "a card", "protocol": protocol}
    project.profile("growth", {}, about=about, points=points)
    contents = texts("tab_growth", project.evidence([]))
    frame = pd.read_csv(io.StringIO(contents[".csv"])).set_index(["row", "column"])
    assert frame.loc[("patches:4096", "matching_percent"), "value"] == 6.0
    assert ("batch:256", "ms") not in frame.index
    assert r"Matching takes 5 \% of a pass or more from 4,096 patches on" in contents[".tex"]


def test_no_reported_number_enters_a_table(measured: Evidence) -> None:
    """Without runs every cell of a table of runs is missing, whatever the paper prints."""
    (measured.root / tidy_path("desk", "cls")).unlink()
    shutil.rmtree(measured.root / "results/profiles")
    for name in (*groups()["main"], *groups()["rates"]):
        contents = texts(name, Evidence("desk", measured.root))
        assert set(pd.read_csv(io.StringIO(contents[".csv"]))["status"]) <= {"missing"}
        body = contents[".tex"].split(r"\midrule", 1)[1].split(r"\bottomrule")[0]
        shown = [line.removesuffix(r" \\").split(" & ")[1:] for line in body.splitlines() if line.endswith(r"\\")]
        assert {text for row in shown for text in row} <= {"--", "0.3", "0.5", "0.7", "shared", "task-specific"}


def test_settings_in_use_are_shown(measured: Evidence) -> None:
    cells = load_table("tab_training_config").cells(measured)
    settings = measured.settings.tasks["cls"]
    assert cells["batch_size", "cls"].content == str(settings.dense.batch_size)
    assert cells["length", "cls"].content == (
        f"{settings.dense.length:g} {settings.dense.unit}; {settings.method.length:g} {settings.method.unit}"
    )
    assert cells["layers", "cls"].content == "3, 6, 9"
    assert ("lr", "det") in cells or "det" not in measured.settings.tasks


def test_the_paper_scale_shows_the_papers_settings() -> None:
    cells = load_table("tab_training_config").cells(Evidence("paper", ROOT))
    reported = load_reported("tab:training-config")
    for row in ("batch_size", "optimizer", "layers", "seeds", "primary", "secondary"):
        for task in ("cls", "seg", "det"):
            printed = reported.cell(row, task)
            assert printed is not None
            assert cells[row, task] == stated(printed.text)
    for task in ("cls", "seg", "det"):
        assert float(cells["weight_decay", task].content) == reported.value("weight_decay", task)
        assert float(cells["lr", task].content) == reported.value("lr", task)
        assert cells["grid", task].content == reported.cell("grid", task).text.replace("\u00d7", " x ")


def test_parameters_are_counted_at_the_papers_width() -> None:
    cells = load_table("tab_parameters").cells(Evidence("paper", ROOT))
    assert (
        cells["total", "tap"].content
        == controller_parameters(768)
        == load_reported("tab:parameters").value("total", "tap")
    )
    assert sum(cells[part, "tap"].content for part in ("register", "allocation", "recovery")) == 2306
    assert {part: cells[part, "tap_f"].content for part in ("register", "lora", "total")} == {
        "register": 768,
        "lora": 1_179_648,
        "total": 1_180_416,
    }


def test_ownership_is_read_off_built_models() -> None:
    cells = load_table("tab_ownership").cells(Evidence("smoke", ROOT))
    for row in load_reported("tab:ownership").rows:
        for column in ("tap", "tap_f"):
            assert cells[row.key, column].content == load_reported("tab:ownership").cell(row.key, column).text
    assert cells["lora", "tap_f_size"].content == "73,728"
    assert "det" in load_table("tab_ownership").note(Evidence("smoke", ROOT))


def test_budget_rows_come_out_as_printed(measured: Evidence) -> None:
    cells = load_table("tab_budget_tests").cells(measured)
    for row in load_reported("tab:budget-tests").rows:
        printed = {key: cell.text for key, cell in zip(("patches", "kept"), row.cells[:2], strict=True)}
        assert {key: f"{cells[row.key, key].content:g}" for key in printed} == printed
        assert cells[row.key, "removals"].content == row.cells[3].text
        assert cells[row.key, "check"].content == row.cells[4].text
    assert "smoke" not in texts("tab_budget_tests", Evidence("smoke", ROOT))[".tex"].lower()


@pytest.mark.slow
def test_the_audit_reads_what_the_tables_write(measured: Evidence, tmp_path: Path) -> None:
    for name in names():
        (tmp_path / f"{name}.csv").write_text(texts(name, measured)[".csv"])
    found = {table.label: table for table in tables_beside(tmp_path)}
    line = next(line for line in found["tab:keep-rates"].lines if line.key == "cls_tap_0.5")
    theirs, ours = line.cells[2]
    assert (theirs, ours.text, ours.runs) == ("83.2", "80.50", ("cls/tap/r0.50/main/s0", "cls/tap/r0.50/main/s1"))
    tests = found["tab:budget-tests"]
    assert (tests.measured, tests.count(Status.STATED)) == (0, 10)
    assert tests.count(Status.STATED) + tests.count(Status.RECOMPUTED) == tests.printed
