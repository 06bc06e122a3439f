"""What a workflow says before any job: missing data by their setting, unreadable settings by their message alone."""

import subprocess

import pytest

pytestmark = pytest.mark.slow


def test_missing_data_and_weights_are_named_in_a_dry_run(project):
    few = "results/paper/tables/tab_training_config.tex"  # the message does not depend on what is asked for
    result = project.snakemake(few, "--dry-run", "--config", "scale=paper")
    for task, folder in (("cls", "imagenet"), ("seg", "ade20k"), ("det", "coco")):
        assert result.stderr.count(f"tasks.{task}.data.root: data/{folder} is not there; every job of {task}") == 1
    weights = "pretrain.weights: data/weights/mae_pretrain_vit_base.pth is not there; every training of cls, seg, det"
    assert result.stderr.count(weights) == 1
    assert (
        "is not there" not in project.snakemake(few.replace("paper", "smoke", 1), "--dry-run").stderr
    )  # data that the workflow fetches


def test_a_target_that_no_job_makes_ends_in_its_message_alone(project):
    result = project.snakemake("results/smoke/figures/fig_qual.jpg", "--dry-run")
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith(
        "Error: results/smoke/figures/fig_qual.jpg: no job makes it; there are results/smoke/figures/"
    )
    assert "Traceback" not in result.stderr + result.stdout
    assert "Exception" not in result.stderr + result.stdout


def test_a_start_in_a_subfolder_ends_in_its_message_alone(project):
    result = subprocess.run(
        ["snakemake", "--dry-run"], cwd=project.folder / "workflow", env=project.environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    lines = [line for line in result.stderr.splitlines() if not line.startswith("Using workflow specific profile")]
    assert len(lines) == 1
    assert lines[0].startswith("Error: params.yaml: cannot be read")
    assert lines[0].endswith("run from the project's folder")


def test_a_mistyped_rule_is_answered_with_the_nearest(project):
    result = project.snakemake("auditt", "--dry-run")
    assert result.returncode == 1
    assert "auditt: there is no rule and no file of this name; did you mean audit?" in result.stdout + result.stderr
