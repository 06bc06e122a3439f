import inspect
import re
from pathlib import Path

import pytest
from snakemake.scheduling.job_scheduler import JobScheduler

from tap.config import load_scale
from tap.paper.figures.names import GROUPS
from tap.plan.runs import main_runs
from tap.provenance.locks import hold_lock

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_table_needs_exactly_the_jobs_of_its_task(project):
    assert project.planned("paper_tables/tab_cls.tex") == {
        "prepare_data": 2,  # the backbone has seen the images of two tasks
        "pretrain": 1,
        "train_dense": 2,  # the start of all, and no pruning itself
        "train_method": 11,
        "train_joint": 2,  # TAP-F at the main keep rate, and its start: no table waits for what it does not show
        "evaluate": 13,
        "gather": 1,
        "verify": 1,
        "table": 1,
        "publish": 1,
    }


@pytest.mark.slow
def test_detection_starts_from_the_common_backbone(project):
    planned = project.planned("paper_tables/tab_det.tex")
    assert (planned["prepare_data"], planned["pretrain"], planned["endpoint"]) == (2, 1, 1)
    assert planned["train_dense"] == 4  # and a floor of the one seed: a head on a random encoder; each with its start
    assert planned["evaluate"] == 2 + planned["train_method"] + planned["train_joint"] - 1  # a start is not evaluated


@pytest.mark.slow
def test_the_audit_comes_after_everything_else_that_leaves_a_record(project):
    planned = project.planned("audit")
    copies = ("publish", "publish_group", "publish_paper")  # below paper_tables/ and paper_figures/
    figures = (f"publish_figures_of_{behind}" for behind in GROUPS.values())
    without_record = {"all", *copies, *figures}
    expected = {rule: jobs for rule, jobs in project.planned().items() if rule not in without_record}
    assert planned == {**expected, "audit": 1}
    assert planned["audit"] == 1
    assert 2 * planned["table"] == planned["gather"] >= 4
    assert planned["tables_of_main"] == planned["tables_of_rates"] == planned["tables_of_settings"] == 1


@pytest.mark.slow
def test_tables_of_settings_need_no_run(project):
    assert project.planned("results/smoke/tables/tab_training_config.csv") == {"tables_of_settings": 1}


@pytest.mark.slow
def test_probes_need_no_pruning_alone(project):
    planned = project.planned(*(f"results/smoke/verified_probes_{task}.json" for task in ("cls", "seg", "det")))
    assert planned == {
        "prepare_data": 2,
        "pretrain": 1,
        "train_dense": 6,
        "probe": 5,
        "gather_probes": 3,
        "verify": 3,
    }


@pytest.mark.slow
def test_searches_need_the_starts_and_no_run(project):
    starts = {"prepare_data": 2, "pretrain": 1, "train_dense": 3}
    assert project.planned("tune", "tune_budget") == {**starts, "tune_task": 6, "tune": 1, "tune_budget": 1}


@pytest.mark.slow
def test_what_is_made_of_probes_is_verified_and_names_the_floors_of_dense_tasks(project):
    planned = project.planned("results/smoke/tables/tab_paired_recovery.tex", "results/smoke/figures/fig_insight.pdf")
    assert planned["verify"] == planned["gather_probes"] == 3
    assert "train_method" not in planned


@pytest.mark.slow
def test_the_command_line_switches_the_scale_and_its_results_stay_apart(project):
    desk = load_scale("desk")
    runs, starts = len(main_runs(desk, "cls")), len(desk.tasks["cls"].seeds)
    planned = project.planned("results/desk/tables/tab_cls.tex", "--config", "scale=desk")
    assert planned["evaluate"] == planned["train_dense"] + planned["train_method"] + planned["train_joint"] - 2 * starts
    assert planned["evaluate"] == runs > 7
    assert "publish" not in planned


@pytest.mark.slow
def test_an_unknown_option_of_the_workflow_is_refused(project):
    result = project.snakemake("--config", "scael=desk")
    assert result.returncode != 0
    assert "--config scael=...: unknown; only 'scale' can be set here" in result.stderr


@pytest.mark.slow
def test_a_wrong_setting_stops_before_any_job(project):
    (project.folder / "params.yaml").write_text("scale: smoke\noverrides: {smoke: {main_rat: 0.5}}\n")
    result = project.snakemake()
    assert result.returncode != 0
    assert "params.yaml: overrides.smoke.main_rat: unknown key; did you mean 'main_rate'?" in result.stderr
    assert not (project.folder / "results").exists()


@pytest.mark.slow
def test_a_second_workflow_in_the_folder_is_refused(project):
    handle = hold_lock(project.folder / ".tap" / "workflow.lock")
    assert handle is not None
    result = project.snakemake("data/fashion_mnist/manifest.json")
    assert result.returncode != 0
    assert "another workflow is running in this folder" in result.stderr
    assert not (project.folder / "data").exists()


@pytest.mark.slow
def test_the_rules_are_linted(project):
    # The environment is one for all rules and locked by hashes (requirements.lock), which the linter cannot know.
    lints = re.findall(r"^    \* (.*)$", project.snakemake("--lint").stderr, flags=re.MULTILINE)
    assert set(lints) == {"Specify a conda environment or container for each rule.:"}


def test_snakemake_has_the_limit_that_the_workflow_lifts():
    """Under another name it would be back, and keep a core busy without a word."""
    assert "if self.job_rate_limiter is not None:" in inspect.getsource(JobScheduler.schedule)


def test_published_results_are_no_input_of_any_rule():
    rules = [*(ROOT / "workflow").rglob("*.smk"), *(ROOT / "tap" / "config").rglob("*.py")]
    assert [path for path in rules if "published/" in path.read_text()] == []
