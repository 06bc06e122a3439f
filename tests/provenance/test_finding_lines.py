"""Thousands of findings in a few lines."""

import shutil

import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.jobs.staleness import Today
from tap.provenance.finding import Finding, Kind
from tap.provenance.finding_lines import finding_lines, folder_of
from tap.provenance.verify import require, verify


def missing(*paths):
    return [Finding(path, Kind.MISSING, "a record names it") for path in paths]


def test_many_of_one_kind_in_one_folder_share_a_line():
    images = missing(*(f"data/toy/images/{number}.png" for number in range(3500)))
    assert finding_lines(images) == [
        "data/toy: missing: 3500 files, the first data/toy/images/0.png (a record names it)"
    ]
    weights = missing(*(f"results/desk/runs/cls/tap/r0.50/main/s{seed}/model.safetensors" for seed in range(4)))
    assert finding_lines(weights)[0].startswith(
        "results/desk/runs/cls: missing: 4 files called model.safetensors, the first results/desk/runs/cls/tap"
    )


def test_few_and_other_kinds_and_folders_keep_their_lines_and_their_order():
    edited = Finding("data/toy/images/9.png", Kind.EDITED, "not what a record says")
    findings = [
        *missing("results/desk/a.csv", "results/desk/b.csv"),
        edited,
        *missing(*(f"data/toy/{n}" for n in "abcd")),
    ]
    lines = finding_lines(findings)
    assert lines[:3] == [str(finding) for finding in findings[:3]]
    assert lines[3].startswith("data/toy: missing: 4 files, the first data/toy/a")
    assert finding_lines(findings, everything=True) == [str(finding) for finding in findings]


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("data/toy/images/training/a.png", "data/toy"),
        ("results/desk/runs/cls/tap/r0.50/main/s0/run.json", "results/desk/runs/cls"),
        ("results/desk/tables/tab_cls.tex", "results/desk/tables"),
        ("results/desk/tidy_cls.csv", "results/desk"),
        ("paper_tables/tab_cls.tex", "paper_tables"),
        ("params.yaml", "params.yaml"),
    ],
)
def test_the_folder_under_which_a_file_is_counted(path, folder):
    assert folder_of(path) == folder


def test_a_project_without_data_and_weights_is_refused_in_a_few_lines(finished):
    shutil.rmtree("data/microscopy")
    for weights in finished.rglob("*.safetensors"):
        weights.unlink()
    cfg = load_scale("smoke")
    found = verify(cfg, Today(cfg).staleness)
    with pytest.raises(UserError) as refused:
        require(found)
    lines = str(refused.value).splitlines()
    assert len(lines) < 8 < len(found.findings)
    assert "snakemake makes it anew" in lines[0]
    with pytest.raises(UserError) as refused:
        require(found, everything=True)
    assert len(str(refused.value).splitlines()) == len(found.findings)
