"""Plans beside the runs that have been made, beside rough hours of the paper scale, and what a claim needs."""

import csv
import functools
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.jobs.planning import as_csv, as_json, as_text, chosen_jobs, make_plan
from tap.jobs.registry import JOBS
from tap.paper.audit.claim import load_claims
from tap.plan.estimate import JOINT, PlannedJob
from tap.plan.flops import forward_flops
from tap.plan.joint import JointRun
from tap.plan.runs import dense_run
from tap.plan.specs import job_spec
from tap.plan.wall_time import critical_path, wall_seconds
from tap.runs import Run

PUBLISHED = Path("published")


@functools.cache
def plan_of(scale, *arguments, **options):
    cfg = load_scale(scale)
    return make_plan(cfg, chosen_jobs(cfg, *arguments), **options)


def line_of(plan, task, method="all"):
    return next(line for line in plan.lines if (line.task, line.method) == (task, method))


def test_the_published_desk_runs_took_what_a_plan_says():
    plan = plan_of("desk", records=PUBLISHED)
    for task in ("cls", "seg", "det", "all"):
        line = line_of(plan, task)
        assert line.used > 0.3
        assert 1 / 1.5 < line.planned_of_used / line.used < 1.5, task


@pytest.mark.parametrize(("task", "trainings", "low", "high"), [
    ("cls", 42, 800, 1_250), ("seg", 60, 160, 250), ("det", 27, 11_000, 22_000),
])  # fmt: skip
def test_hours_of_the_paper_scale(task, trainings, low, high):
    line = line_of(plan_of("paper"), task)
    assert line.trainings == trainings
    assert low < line.hours < high
    assert line.hours_low < line.hours < line.hours_high


def test_the_readme_says_what_a_plan_says_of_the_tables():
    (line,) = [line for line in Path("README.md").read_text().splitlines() if line.startswith("| `paper` |")]
    said = [int(found.replace(",", "")) for found in re.findall(r"about ([\d,]+)", line)]
    assert said == [round(plan_of("paper", f"tab_{task}").total.hours, -2) for task in ("cls", "seg", "det")]


def test_detection_takes_nearly_all_of_what_tasks_train_on_their_own():
    plan = plan_of("paper")
    hours = {task: line_of(plan, task).hours for task in ("cls", "seg", "det")}
    assert hours["det"] / sum(hours.values()) == pytest.approx(0.93, abs=0.015)
    assert line_of(plan, JOINT).hours > hours["det"]  # 60 joint trainings with a third of their steps in detection


def test_the_search_of_methods_settings_is_named_beside_the_plan_and_not_counted():
    cfg, plan = load_scale("paper"), plan_of("paper", "tab_cls")
    trainings, hours = plan.search
    assert trainings == 4 * (len(cfg.tasks["cls"].methods) - 1)  # TAP-F is trained for several tasks
    own = sum(row["planned_hours"] for row in plan.jobs if row["job"] == "train" and row["task"] == "cls")
    assert hours == pytest.approx(own * trainings / line_of(plan, "cls").trainings, rel=0.05)
    assert f"(`tap tune`) in these tasks, {trainings} trainings, " in as_text(plan, cfg)


def test_other_cards_take_longer_and_say_what_does_not_fit():
    h100, small = plan_of("paper", "tab_seg"), plan_of("paper", "tab_cls", gpu="rtx4090")
    assert plan_of("paper", "tab_seg", gpu="a100").total.hours == pytest.approx(2 * h100.total.hours)
    cfg = load_scale("paper")
    assert "In parts: cls/dense needs 68 GB in each of 1 process(es), a card has 24 GB, so that images pass in" in (
        as_text(small, cfg)
    )
    assert "TOO LARGE" not in as_text(plan_of("paper", gpu="rtx4090"), cfg)  # every batch of the paper passes in parts
    whole = load_scale("paper", {f"tasks.cls.{part}.micro_batch": None for part in ("dense", "method")})
    found = as_text(make_plan(whole, chosen_jobs(whole, "tab_cls"), "rtx4090"), whole)
    assert "TOO LARGE: cls/dense needs 68 GB in each of 1 process(es), a card has 24 GB; at least 3 hold" in found
    with pytest.raises(
        UserError, match="--gpu: 'v100' is not known; choose from h100, a100, rtx4090, profile or measured"
    ):
        plan_of("paper", gpu="v100")


def test_a_profile_of_the_card_takes_the_place_of_stated_rates(tmp_path, monkeypatch):
    stated = plan_of("paper", "tab_cls").total
    shutil.copytree("workflow/scales", tmp_path / "workflow/scales")
    (tmp_path / "params.yaml").write_text("scale: paper\n")
    monkeypatch.chdir(tmp_path)
    cfg = load_scale("paper")
    jobs = chosen_jobs(cfg, "tab_cls")
    with pytest.raises(UserError, match=r"--gpu profile: .* no full model of every task .*`snakemake profile` makes"):
        make_plan(cfg, jobs, "profile")
    flops = {task: forward_flops(job_spec(cfg, dense_run(cfg, task, 0))) for task in ("cls", "seg", "det")}
    for task, share in (("cls", 0.26), ("seg", 0.22), ("det", 0.0766)):  # twice what is stated of an H100
        seconds = 4 * flops[task] / (share * 989e12)
        content = {
            "about": {"driver": {"power.limit": "600.00 W"}},
            "batch": 4,
            "methods": {"dense": {"full": None}, "tap": {"full": {"seconds": seconds / 2, "reference": seconds}}},
        }
        path = Path("results/profiles/gpu-some-card/paper") / f"{task}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    plan = make_plan(cfg, jobs)
    assert plan.total.hours == pytest.approx(stated.hours / 2, rel=1e-3)
    assert plan.total.hours_high == pytest.approx(2.5 * plan.total.hours)
    assert plan.total.energy_kwh == pytest.approx(0.6 * plan.total.hours)
    text = as_text(plan, cfg)
    assert "GPU-hours" in text
    assert "Rates: profiles of gpu-some-card (forward passes, without loading" in text
    assert make_plan(cfg, jobs, "h100").total.hours == pytest.approx(stated.hours)


def test_processes_share_a_batch():
    cfg = load_scale("paper", {"processes": 8})
    runs = chosen_jobs(cfg, "tab_cls")
    with pytest.raises(UserError, match="--gpus: 4 are fewer than the 8 of one training"):
        make_plan(cfg, runs, gpus=4)
    one = plan_of("paper", "tab_cls")
    eight = make_plan(cfg, runs, gpus=8)
    assert eight.total.hours == pytest.approx(one.total.hours)
    assert line_of(eight, "cls", "dense").memory_gb < line_of(one, "cls", "dense").memory_gb / 4
    assert eight.critical_days < one.critical_days / 7


def test_a_claim_needs_the_runs_that_it_compares_and_no_more():
    plan = plan_of("paper", None, "keep-rate-balance")
    trained = {(row["method"], row["run"].split("/")[2]) for row in plan.jobs if row["job"] == "train"}
    assert trained == {("tap", "r0.30"), ("tap", "r0.50"), ("tap", "r0.70")}
    assert line_of(plan, "det").trainings == 6  # two seeds each
    assert plan.total.hours < plan_of("paper").total.hours / 10
    ahead = plan_of("paper", None, "abstract-seg")
    assert {row["task"] for row in ahead.jobs} == {"seg"}
    with pytest.raises(UserError, match="--claim: 'no-such' is not known; choose from"):
        plan_of("paper", None, "no-such")


def test_probes_and_controls_are_counted_at_both_scales():
    for plan in (plan_of("paper"), plan_of("desk", records=PUBLISHED)):
        for task in ("cls", "seg", "det"):
            assert 0 < line_of(plan, task, "probes").hours < line_of(plan, task).hours
            assert 0 < line_of(plan, task, "controls").hours < line_of(plan, task).hours
    controls = line_of(plan_of("paper"), "det", "controls")
    assert controls.others == 6  # TAP-J and TAP-F, three seeds each
    assert 10 < controls.hours < 60
    waits = {row["run"]: row for row in plan_of("paper").jobs if row["job"] in ("probe", "endpoint")}
    assert set(waits) == {"layers cls", "recovery seg", "layers seg", "recovery det", "layers det", "seg"}


def test_the_published_probes_took_what_a_plan_says():
    used = [row for row in plan_of("desk", records=PUBLISHED).jobs if row["job"] == "probe" and row["used_hours"]]
    assert len(used) >= 2
    planned, took = (sum(row[f"{name}_hours"] for row in used) for name in ("planned", "used"))
    assert 1 / 1.7 < planned / took < 1.7


def test_a_claim_of_probes_needs_them_and_one_of_controls_these():
    poor = plan_of("paper", None, "criterion-rankings")
    assert {row["job"] for row in poor.jobs} >= {"train", "probe"}
    assert "control" not in {row["job"] for row in poor.jobs}
    oracle = plan_of("paper", None, "oracle")
    assert {(row["job"], row["task"]) for row in oracle.jobs} >= {("control", "seg"), ("control", "det")}
    assert "probe" not in {row["job"] for row in oracle.jobs}


@pytest.mark.slow
def test_every_claim_can_be_planned_or_says_that_no_run_judges_it():
    cfg = load_scale("paper")
    reasons = {}
    for claim in load_claims():
        try:
            assert chosen_jobs(cfg, None, claim.id)
        except UserError as error:
            reasons[claim.id] = str(error)
    by_profiles = {claim for claim, text in reasons.items() if "needs no run, but a profile" in text}
    assert by_profiles == {
        "controller-overhead", "encoder-speedup", "full-speedup", "peak-memory", "throughput-includes-recovery",
    }  # fmt: skip
    others = [text for claim, text in reasons.items() if claim not in by_profiles]
    assert all("has to do with" in text or "does not make it" in text for text in others), reasons
    assert len(others) < 10, reasons


def test_tables_as_files():
    plan = plan_of("desk", "tab_cls", records=PUBLISHED)
    rows = list(csv.DictReader(io.StringIO(as_csv(plan))))
    assert len(rows) == len(plan.jobs)
    assert sum(float(row["planned_hours"]) for row in rows) == pytest.approx(plan.total.hours)
    assert json.loads(as_json(plan))["lines"][-1]["hours"] == plan.total.hours
    with pytest.raises(UserError, match="--table: 'tab_x' has no runs of its own; choose from tab_cls, tab_seg"):
        plan_of("desk", "tab_x")


def test_time_from_start_to_end():
    def job(name, *after):
        return PlannedJob("train", "cls", "dense", "main", name, 1, 1.0, {"cls": 1.0}, 0.0, 0.0, 0.0, after)

    jobs = [job("start"), job("a", "start"), job("b", "start"), job("alone")]
    seconds = dict(zip([("train", found.name) for found in jobs], (10.0, 5.0, 4.0, 12.0), strict=True))
    assert critical_path(jobs, seconds) == 15.0
    assert wall_seconds(jobs, seconds, 1) == 31.0
    assert wall_seconds(jobs, seconds, 2) == 16.0  # 12 and 10, then 5 beside 4, which begins at 12
    assert wall_seconds(jobs, seconds, 9) == 15.0
    both = [replace(found, processes=2) if found.name == "alone" else found for found in jobs]
    assert wall_seconds(both, seconds, 2) == 27.0  # 12 on both cards, then 10, then 5 beside 4


def test_a_task_may_have_processes_of_its_own():
    cfg = load_scale("paper", {"tasks.det.processes": 8, "joint.processes": 4})
    assert [cfg.processes_of(task) for task in ("cls", "det", None)] == [1, 8, 4]
    gpus = {task: JOBS["train"].resources(cfg, Run("paper", task, "tap", 0.5)).gpus for task in ("cls", "det")}
    assert gpus == {"cls": 1, "det": 8}
    assert JOBS["train_joint"].resources(cfg, JointRun("paper", "tap_f", 0.5, "main", 0)).gpus == 4
    with pytest.raises(UserError, match="--gpus: 4 are fewer than the 8 of one training"):
        make_plan(cfg, chosen_jobs(cfg, "tab_det"), gpus=4)
