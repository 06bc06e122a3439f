import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from tap.errors import UserError
from tap.paper.reported import load_reported
from tap.paper.tables.build import SUFFIXES, build_table, load_table
from tap.paper.tables.render import CELL_COLUMNS
from tap.paper.tidy import write_tidy
from tap.plan.profiles import profile_in_use
from tap.plan.results import tidy_path
from tap.runs import Run

REPOSITORY = Path(__file__).parents[3]


MAIN_TABLES = ("tab_seg", "tab_cls", "tab_det")


def build(project, runs, name: str = "tab_cls", scale: str = "desk") -> dict[str, str]:
    return project.table(name, runs, scale)


def body(tex: str) -> list[list[str]]:
    """Cells of the rows, head first."""
    inner = tex[tex.index(r"\toprule") : tex.index(r"\bottomrule")]
    lines = [line.removesuffix(r" \\") for line in inner.splitlines() if line.endswith(r"\\")]
    return [re.split(r" (?<!\\)& ", line) for line in lines]


def rows(tex: str) -> dict[str, list[str]]:
    return {cells[0]: cells[1:] for cells in body(tex)}


@pytest.mark.parametrize("name", MAIN_TABLES)
def test_a_table_of_no_run_at_all_has_the_papers_layout(project, name: str) -> None:
    tex = build(project, [], name)[".tex"]
    table = load_table(name)
    head, *printed = body(tex)
    always = [item for item in table.heads if not item.optional]
    assert all(len(cells) == len(head) == len(always) + 1 for cells in printed)
    assert len(printed) == len(table.reported.rows)
    assert all(set(cells[1:]) == {"--"} for cells in printed)
    assert tex.count(r"\midrule") == 3
    assert rf"\label{{{table.label}}}" in tex
    plain = tex.replace(r"\{", "").replace(r"\}", "")
    assert plain.count("{") == plain.count("}")
    for environment in ("table", "tabular"):
        assert tex.count(rf"\begin{{{environment}}}") == tex.count(rf"\end{{{environment}}}") == 1
    assert tex.isascii()
    assert tex.count("$") % 2 == 0


@pytest.mark.parametrize("name", MAIN_TABLES)
def test_order_is_the_papers(project, name: str) -> None:
    tex = build(project, [], name)[".tex"]
    printed = [cells[0].removesuffix(r"$^\dagger$") for cells in body(tex)[1:]]
    assert printed == [row.label for row in load_reported(name).rows]


@pytest.mark.parametrize(
    ("name", "marked"),
    [
        ("tab_cls", set()),
        ("tab_seg", {"Random", "Attn Top-K", "DiffRate", "Static rule"}),
        ("tab_det", {"Random", "Attn Top-K", "Static rule"}),
    ],
)
def test_daggers_mark_the_common_recovery(project, name: str, marked: set[str]) -> None:
    printed = [cells[0] for cells in body(build(project, [], name)[".tex"])[1:]]
    assert {cell.removesuffix(r"$^\dagger$") for cell in printed if cell.endswith(r"$^\dagger$")} == marked


def test_cells_of_measured_rows(project, cls_runs) -> None:
    project.profile("cls", {"random": 1.31, "tap": 1.31})
    printed = rows(build(project, cls_runs)[".tex"])
    assert printed["No pruning"] == ["1.4M", "90.0", r"100 (1.00$\times$)"]
    assert printed["Random"] == ["+0", r"\textbf{88.0} ($-$2.0)", r"131 (1.31$\times$)"]
    assert printed["TAP-J (ours)"] == ["+290", r"80.0 ($-$10.0)", r"131 (1.31$\times$)"]
    assert printed["EViT"] == ["--", "--", "--"]


def test_the_scales_own_models_have_a_column_where_they_were_profiled(project, cls_runs) -> None:
    project.profile("cls", {"tap": 1.31})
    project.profile("cls", {"tap": 1.12}, shapes="desk")
    contents = build(project, cls_runs)
    assert rows(contents[".tex"])["TAP-J (ours)"][2:] == [r"131 (1.31$\times$)", r"112 (1.12$\times$)"]
    cells = pd.read_csv(io.StringIO(contents[".csv"])).set_index(["row", "column"])
    line = cells.loc["tap", "encoder_speedup"]
    assert (line["low"], line["high"], line["n_seeds"]) == (pytest.approx(1.30), pytest.approx(1.32), 0)
    assert line["runs"] == "profiles/gpu-some-card/paper/cls"
    assert (line["device"], line["batch"], line["kernel"]) == ("gpu-some-card in words", 64, "sdpa_flash")


def test_a_machine_can_be_named_and_a_gpu_goes_first(project, cls_runs) -> None:
    project.profile("cls", {"tap": 1.4}, device="cpu-some-2t")
    project.profile("cls", {"tap": 1.31}, device="gpu-b")
    assert rows(build(project, cls_runs)[".tex"])["TAP-J (ours)"][2] == r"131 (1.31$\times$)"
    evidence = project.evidence(cls_runs)
    named = evidence.settings.model_copy(update={"profile_device": "cpu-some-2t"})
    assert profile_in_use(named, "paper", "cls", project.root).parts[2] == "cpu-some-2t"


def test_the_frozen_base_and_no_pruning_are_never_bold(project) -> None:
    runs = [project.add_cls("dense", 0.95), project.add_cls("tap_f", 0.93), project.add_cls("tap", 0.8)]
    tex = build(project, runs)[".tex"]
    assert re.findall(r"\\textbf\{([\d.]+)\}", tex) == ["80.0"]


def test_no_reported_number_reaches_a_measured_column(project, cls_runs) -> None:
    contents = build(project, cls_runs)
    values = {text for row in load_reported("tab:cls").rows for text in (c.text for c in row.cells if c)}
    values -= {"+0", "1.00", "-2.0", "1.31", "82.0"}
    tex = contents[".tex"][: contents[".tex"].index(r"\caption")]
    assert not values & set(re.findall(r"[+\d.]+[KM]?", tex))
    cells = pd.read_csv(io.StringIO(contents[".csv"]))
    assert cells.loc[cells["status"] == "missing", "value"].isna().all()


def test_caption_says_where_and_how(project, cls_runs) -> None:
    project.profile("cls", {"tap": 1.31})
    tex = build(project, cls_runs)[".tex"]
    caption = tex[tex.index(r"\caption") : tex.index(r"\label")]
    for part in (
        "Fashion-MNIST",
        r"$\rho=0.5$",
        r"\texttt{desk}",
        r"Evaluated on CPU, 2 threads \& more\_",
        "gpu-some-card in words; batch 64; bf16; sdpa\\_flash; 500 passes in 5 rounds",
        "this scale's own model has not been measured here",
        "Means over 2 seeds",
        "no pruning: 4 epochs, batch 128 from the pre-trained weights",
        "every other method: 4 epochs, batch 128 from a training without pruning of the same seed",
        "-- has not been measured",
    ):
        assert part in caption, part
    assert "mean nothing" not in caption
    assert "Final patches" not in caption


def test_a_budget_that_all_have_is_said_once(project, cls_runs) -> None:
    for run in (run for run in cls_runs if run.method == "dense"):
        path = project.root / run.folder / "run.json"
        path.write_text(path.read_text().replace('"pretrained"', '"dense"'))
    tex = build(project, cls_runs)[".tex"]
    assert "Training: every method, no pruning too: 4 epochs, batch 128 from a training without pruning" in tex


def test_smoke_says_that_it_means_nothing(project) -> None:
    contents = build(project, [], scale="smoke")
    assert "these numbers mean nothing" in contents[".tex"]
    assert "these numbers mean nothing" in contents[".compare.md"]


def test_a_method_that_misses_the_count_says_so(project, cls_runs) -> None:
    cls_runs.append(project.add_cls("ats", 0.85, final_tokens_mean=31.0, final_tokens_sd=2.2))
    tex = build(project, cls_runs)[".tex"]
    assert r"Final patches where they are not exact: ats $31.0\pm2.2$ for 32." in tex
    assert "another rate" not in tex


def test_a_method_far_from_the_count_is_not_compared_tacitly(project, cls_runs) -> None:
    cls_runs.append(project.add_cls("ats", 0.85, final_tokens_mean=27.0, final_tokens_sd=9.0))
    assert "More than a twentieth from that: ats, whose changes" in build(project, cls_runs)[".tex"]


def test_what_only_the_training_adds_is_said(project, cls_runs) -> None:
    assert "In training more" not in build(project, cls_runs)[".tex"]
    sizes = {"parameters_added": 2304, "parameters_added_training": 16_485_816}
    cls_runs += [project.add_cls("cropr", 0.85, **sizes), project.add_cls("svit", 0.85, parameters_added_training=0)]
    contents = build(project, cls_runs)
    assert "In training more is added: cropr +16.5M." in contents[".tex"]
    assert rows(contents[".tex"])["Token Cropr"][0] == "+2.3K"
    cells = pd.read_csv(io.StringIO(contents[".csv"])).set_index(["row", "column"])["value"]
    assert cells["cropr", "size"] == 2304
    assert cells["cropr", "size_training"] == 16_485_816


def test_seeds_that_differ_are_not_hidden(project) -> None:
    runs = [project.add_cls("dense", 0.9, 0), project.add_cls("dense", 0.9, 1), project.add_cls("tap", 0.8, 0)]
    assert r"Means over the seeds that tab\_cls.csv lists" in build(project, runs)[".tex"]


def test_every_cell_leads_to_its_runs(project, cls_runs) -> None:
    cells = pd.read_csv(io.StringIO(build(project, cls_runs)[".csv"]))
    assert tuple(cells.columns) == CELL_COLUMNS
    assert not cells.duplicated(["row", "column"]).any()
    change = cells[(cells["row"] == "random") & (cells["column"] == "top1_delta")].iloc[0]
    assert change["runs"].split() == [f"cls/{m}/main/s{s}" for s in (0, 1) for m in ("random/r0.50", "dense/r1.00")]
    assert change["low"] < change["value"] < change["high"]
    assert change["n_seeds"] == 2
    assert cells.loc[cells["status"] == "measured", "runs"].notna().all()
    known = {run.id for run in cls_runs}
    assert {run for text in cells["runs"].dropna() for run in text.split()} == known


def test_detection_prints_two_throughputs_and_two_scores(project) -> None:
    runs = []
    for method, rate, score in (("dense", 1.0, 40.0), ("tap", 0.5, 39.5)):
        runs.append(project.add(Run("desk", "det", method, rate), {"box_ap": score, "mask_ap": score - 5}))
    project.profile("det", {"tap": 1.2})
    printed = rows(build(project, runs, "tab_det")[".tex"])
    assert printed["TAP-J (ours)"][1:] == [
        r"\textbf{39.5} ($-$0.5)",
        r"\textbf{34.5} ($-$0.5)",
        r"120 (1.20$\times$)",
        r"60.0 (1.20$\times$)",
    ]


def test_the_same_runs_give_the_same_bytes(project, cls_runs) -> None:
    assert build(project, cls_runs) == build(project, reversed(cls_runs))


def test_build_table_reads_the_settings_and_writes_all_files(project, tmp_path: Path) -> None:
    scale = tmp_path / "workflow/scales/smoke.yaml"
    scale.parent.mkdir(parents=True)
    scale.write_text((REPOSITORY / "workflow/scales/smoke.yaml").read_text())
    (tmp_path / "params.yaml").write_text("scale: desk\n")
    settings = yaml.safe_load((tmp_path / "workflow/scales/smoke.yaml").read_text())
    seed = settings["tasks"]["cls"]["seeds"][0]
    for method, rate in (("dense", 1.0), ("tap", settings["main_rate"])):
        arrays = {"correct": np.arange(9) < 4, "sample_id": np.arange(9)}
        project.add(Run("smoke", "cls", method, rate, seed=seed), {"top1": 100 * 4 / 9}, arrays)
    write_tidy("smoke", "cls", tmp_path / tidy_path("smoke", "cls"), root=tmp_path)
    out = tmp_path / "paper_tables"
    files = build_table("tab:cls", "smoke", out, root=tmp_path)
    assert [path.name for path in files] == [f"tab_cls{suffix}" for suffix in SUFFIXES]
    assert all(path.stat().st_size for path in files)
    record = json.loads((out / "tab_cls.record.json").read_text())
    assert sorted(record["outputs"]) == sorted(f"paper_tables/{path.name}" for path in files)
    assert {"results/smoke/tidy_cls.csv", "results/smoke/tidy_cls.record.json"} <= set(record["inputs"])
    assert len(list(out.iterdir())) == len(files) + 1
    assert "44.4" in files[0].read_text()


def test_a_method_that_the_paper_does_not_have_is_a_marked_row_everywhere(project, cls_runs) -> None:
    contents = build(project, [*cls_runs, project.add_cls("newcomer", 0.87)])
    assert r"newcomer$^\ddagger$ & +0 & 87.0" in contents[".tex"]
    assert r"$^\ddagger$ not in the paper." in contents[".tex"]
    frame = pd.read_csv(io.StringIO(contents[".csv"])).set_index(["row", "column"])
    assert not frame.loc[("newcomer", "top1"), "in_paper"]
    assert frame.loc[("tap", "top1"), "in_paper"]
    beside = pd.read_csv(io.StringIO(contents[".compare.csv"]))
    assert set(beside.loc[beside["row"] == "newcomer", "verdict"]) == {"not reported"}
    pairs = beside[(beside["kind"] == "order") & (beside["other"] == "newcomer") & (beside["row"] == "tap")]
    assert pairs["measured_difference"].item() == pytest.approx(-7.0, abs=1.0)
    assert "| newcomer (not in the paper) | 87.00 | -- |" in contents[".compare.md"]


def test_unknown_table_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tab_nope.*tab_seg"):
        build_table("tab_nope", "smoke", tmp_path)
    with pytest.raises(UserError, match=r"tidy_cls.csv"):
        build_table("tab_cls", "smoke", tmp_path, root=tmp_path)
