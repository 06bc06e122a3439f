"""The Slurm profile through its executor, with a program in place of `sbatch` that notes what it is asked."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tap.config import load_scale
from tap.jobs.planning import chosen_jobs
from tap.jobs.registry import JOBS
from tap.paper.figures.names import GROUPS
from tap.paper.tables.names import groups
from tap.plan.joint import JointRun
from tap.plan.rates import card_rates

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data" / "fashion_mnist"
PROFILE = "workflow/profiles/slurm"
FAKE = """\
#!/usr/bin/env python3
import json, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + chr(10))
sys.exit("no cluster here")
"""
PARAMS = """\
scale: smoke
tasks: [cls]
overrides:
  smoke:
    device: cuda
    processes: 4
    tasks.cls.data.workers: 8
    tasks.cls.pretrain.share: null
    tasks.cls.pretrain.train: {length: 2, unit: steps, batch_size: 16, optimizer: {lr: 1.0e-3}}
    tasks.cls.methods: [dense, tap]
"""


def settings():
    return yaml.safe_load((ROOT / PROFILE / "config.yaml").read_text())


@pytest.fixture
def cluster(project):
    """The project, with data, a filled-in profile and a `sbatch` that notes its arguments and refuses."""
    if not (DATA / "manifest.json").is_file():
        pytest.skip("the data are not there; `tap data prepare cls` fetches them")
    programs, log = project.folder / "programs", project.folder / "asked.jsonl"
    programs.mkdir()
    for name in ("sbatch", "squeue", "sacct", "sacctmgr", "sinfo", "scontrol", "scancel"):
        program = programs / name
        known = "#!/bin/sh\necho mine\n"  # accounts and partitions
        program.write_text(FAKE.format(log=str(log)) if name == "sbatch" else known)
        program.chmod(0o755)
    shutil.copytree(DATA, project.folder / "data" / "fashion_mnist", copy_function=shutil.copy)
    (project.folder / "params.yaml").write_text(PARAMS)

    def start(*arguments):
        return project.call(
            "env", f"PATH={programs}:{project.environment['PATH']}", "snakemake", "--workflow-profile", PROFILE,
            *arguments, check=False,
        )  # fmt: skip

    def asked():
        return [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []

    return project, start, asked


@pytest.mark.slow
def test_placeholders_are_refused_before_anything_is_submitted(cluster):
    _, start, asked = cluster
    result = start()
    assert result.returncode == 1
    assert (
        "Error: default-resources of the profile: slurm_account, slurm_partition still hold 'change-me'; "
        "put your cluster's names there" in result.stderr
    )
    assert asked() == []


@pytest.mark.slow
def test_a_partition_that_does_not_exist_is_refused_before_anything_is_submitted(cluster):
    project, start, asked = cluster
    path = project.folder / PROFILE / "config.yaml"
    path.write_text(path.read_text().replace("change-me", "mine"))
    result = start("--set-resources", "train_dense:slurm_partition=gpus")
    assert result.returncode == 1
    assert (
        "Error: set-resources of the profile: train_dense: slurm_partition: this cluster has no partition 'gpus'; "
        "it has mine (`sinfo`). Nothing was submitted" in result.stderr
    )
    assert asked() == []


@pytest.mark.slow
def test_a_training_asks_for_one_node_with_its_cards_and_cores(cluster):
    project, start, asked = cluster
    path = project.folder / PROFILE / "config.yaml"
    path.write_text(path.read_text().replace("change-me", "mine"))
    target = "results/smoke/runs/cls/mae/r1.00/main/s0/model.safetensors"
    seconds = ("--slurm-init-seconds-before-status-checks", "1")
    result = start(target, "--slurm-status-command", "squeue", "--retries", "0", *seconds)
    (arguments,) = [found for found in asked() if any("pretrain" in word for word in found)] or [None]
    assert arguments is not None, result.stderr[-3000:]
    line = " ".join(arguments)
    assert "--gpus=4" in line
    assert "--nodes=1" in line
    assert re.search(r"--cpus-per-(task=36|gpu=9)\b", line), line  # 4 processes, each with 8 loaders
    assert "-A mine" in line or "-Amine" in line or "--account mine" in line
    assert "-p mine" in line or "--partition mine" in line
    assert "--mem 4000" in line
    assert "-t 120" in line


@pytest.mark.slow
def test_a_measurement_is_planned_where_this_machine_gives_no_cores(cluster):
    project, start, _ = cluster
    path = project.folder / PROFILE / "config.yaml"
    path.write_text(path.read_text().replace("change-me", "mine"))
    result = start("results/desk/runs/cls/tap/r0.50/main/s0/metrics.json", "--config", "scale=desk", "--dry-run")
    assert result.returncode == 0, result.stderr[-3000:]
    assert re.search(r"^evaluate +1$", result.stdout + result.stderr, re.MULTILINE)


def test_the_profile_stands_alone():
    found, default = settings(), yaml.safe_load((ROOT / "workflow/profiles/default/config.yaml").read_text())
    for name in ("rerun-incomplete", "nolock", "rerun-triggers", "max-checksum-file-size"):
        assert found[name] == default[name], name
    assert "resources" not in found  # no limit of one GPU for the whole cluster
    assert found["keep-going"] is True
    assert found["retries"] > 0
    rules = set(
        re.findall(r"^rule (\w+):", "".join(p.read_text() for p in (ROOT / "workflow/rules").glob("*.smk")), re.M)
    )
    in_loops = {f"{what}_of_{of}" for what in ("figures", "publish_figures") for of in GROUPS.values()}
    in_loops |= {f"tables_of_{of}" for of, tables in groups().items() if tables and of != "runs"}
    assert {*found["groups"], *found["set-threads"]} <= rules | in_loops
    assert in_loops <= set(found["groups"])  # each takes seconds


def test_measurements_have_threads_of_their_own_in_the_profile():
    text = "".join(path.read_text() for path in sorted((ROOT / "workflow/rules").glob("*.smk")))
    rules = dict(re.findall(r'^ *rule (\w+):(?:(?!^ *rule ).)*?threads: threads\("(\w+)"\)', text, re.M | re.S))
    assert rules["train_method"] == "train"
    whole_machine = {rule for rule, job in rules.items() if _resources(load_scale("paper"), job).threads is None}
    passing = {
        rule for rule, job in rules.items() if job in ("evaluate", "probe", "control", "endpoint", "kept_patches")
    }
    assert len(passing) == 5
    assert whole_machine == {"profile_task", "growth"}
    assert whole_machine | passing == set(settings()["set-threads"])


def test_a_measurement_has_twice_the_time_that_a_plan_gives_it_at_most():
    """So that an evaluation and the choice of an endpoint, which keep nothing on the way, need not be begun twice."""
    cfg = load_scale("paper")
    rates, longest = card_rates("h100"), {}
    for job in chosen_jobs(cfg):
        if job.kind != "train":
            longest[job.kind] = max(longest.get(job.kind, 0.0), rates.interval(job)[1] / 60)
    limits = {kind: _resources(cfg, kind).minutes for kind in longest}
    assert set(longest) == {"evaluate", "endpoint", "probe", "control"}
    assert all(2 * minutes < limits[kind] for kind, minutes in longest.items()), (longest, limits)
    assert all(20 * longest[kind] < limits[kind] for kind in ("evaluate", "endpoint"))


def test_every_process_of_a_joint_training_has_its_loaders():
    one, four = (
        JOBS["train_joint"].resources(
            load_scale("paper", {"processes": count}), JointRun("paper", "tap_f", 0.5, "main", 0)
        )
        for count in (1, 4)
    )
    assert four.threads == 4 * one.threads == 4 * 25


def _resources(cfg, name):
    wildcards = {
        "device": "card",
        "shapes": "paper",
        "task": "seg",
        "kind": "layers",
        "search": "options",
        "method": "tap",
        "rate": "0.50",
        "variant": "main",
        "seed": "0",
    }
    return JOBS[name].resources(cfg, JOBS[name].key(cfg, wildcards))
