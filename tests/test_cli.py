import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml
from typer.testing import CliRunner

import tap
from tap import cli
from tap.config import load_scale
from tap.config.datasets import CHECKED
from tap.config.schema import JobSpec
from tap.errors import UserError
from tap.jobs import of_runs
from tap.jobs.registry import JOBS
from tap.plan.profiles import device_key
from tap.plan.specs import job_json, job_spec
from tap.provenance.orphans import LAUNCHER
from tap.runs import Run
from tap.tasks.report import Report

RUN = Run("smoke", "cls", "tap", 0.5)


def call(*arguments):
    """Runs a command in this process; errors come out as they are."""
    return CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)


def test_a_user_error_is_one_line_and_status_2():
    command = [sys.executable, "-m", "tap.cli", "config", "show", "--scale", "tiny"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == "Error: scale: 'tiny' is not one of smoke, desk, paper\n"
    assert result.stdout == ""


def test_the_command_line_does_not_wait_for_torch():
    code = "import sys; sys.argv = ['tap']; import tap.cli; assert not {'torch', 'timm', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_job_of_a_workflow_waits_for_nothing_before_it_asks_for_its_fork():
    code = "import sys; import tap.__main__; assert not {'tap.cli', 'typer', 'pydantic', 'yaml'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_both_names_of_the_program_are_one():
    for module in ("tap", "tap.cli"):
        told = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True)
        assert told.stdout == f"tap {tap.__version__}\n"


def test_version():
    assert call("--version").output == f"tap {tap.__version__}\n"


def test_config_show_prints_the_settings_in_use():
    shown = yaml.safe_load(call("config", "show", "--scale", "smoke").output)
    assert shown == json.loads(load_scale("smoke").model_dump_json())
    shown = yaml.safe_load(call("config", "show", "--scale", "smoke", "--run", RUN.id).output)
    assert JobSpec.model_validate(shown) == job_spec(load_scale("smoke"), RUN)


def test_the_settings_of_this_working_copy_are_valid():
    """The one test that reads its params.yaml; all others must pass whatever that says."""
    command = [sys.executable, "-m", "tap.cli", "config", "check"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


def test_config_check_names_every_scale():
    output = call("config", "check").output
    assert [line.split(":")[0] for line in output.splitlines()] == ["smoke", "desk", "paper"]


@pytest.fixture
def jobs(monkeypatch):
    """Records which job a command would start."""
    seen = []
    start = lambda spec, task, stamp, run=None: seen.append(spec)  # noqa: E731
    monkeypatch.setitem(sys.modules, "tap.engine.job", SimpleNamespace(train_run=start))
    monkeypatch.setitem(sys.modules, "tap.studies.evaluation", SimpleNamespace(evaluate_run=start))
    return seen


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_job_takes_its_settings_from_params_or_from_the_rule(jobs, command):
    expected = job_spec(load_scale("smoke"), RUN)
    call(command, RUN.id, "--scale", "smoke")
    text = job_json(expected.model_copy(update={"seed": 0}), command).replace('"hflip":0.5', '"hflip":0.25')
    call(command, RUN.id, "--scale", "smoke", "--spec", text)
    first, second = jobs
    assert first == expected
    changed = second.train.augment.hflip
    assert changed == (0.25 if command == "train" else expected.train.augment.hflip)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "cls/tap/r0.5/main/s0"], "does not look like"),
        (["train", "cls/tap/r0.00/main/s0"], "keep rate: 0.0 is outside"),
        (["train", "cls/nothing/r0.50/main/s0"], "method: 'nothing' is not a method of cls"),
        (["evaluate", "det/tome/r0.50/main/s0"], "method: 'tome' is not a method of det"),
        (["train", RUN.id, "--spec", "{}"], "--spec: "),
        (["data", "prepare", "nothing"], "task: 'nothing' is not among the tasks of scale 'smoke'"),
        (["data", "check", "cls"], "is verified whenever it is prepared"),
        (["gather", "nothing"], "task: 'nothing'"),
        (["table", "tab_nothing"], "tab_nothing"),
    ],
)
def test_bad_input_is_refused(jobs, arguments, message):
    with pytest.raises(UserError, match=message):
        call(*arguments, "--scale", "smoke")
    assert jobs == []


KEYS = {"task": "seg", "kind": "layers", "search": "options", "table": "tab_seg", "figure": "fig_insight", "of": "seg"}
KEYS |= {"root": "data/microscopy", "device": device_key("cpu", 1), "shapes": "smoke"}
KEYS |= {"root": "data/microscopy", "method": "tap_f", "rate": "0.50", "variant": "main", "seed": "0"}
ARGUMENTS = {
    "paper_page": [],
    "paper_pdf": [],
    "headline": [],
    "growth": [],
    "preflight": [],
    "audit": [],
    "table": ["tab_seg"],
    "figure": ["fig_insight"],
    "publish": ["tab_seg"],
    "verify": ["--task", "seg"],
    "train_joint": ["tap_f/r0.50/main/s0"],
    "control": ["seg/tap_f/r0.50/main/s0"],
}


@pytest.mark.parametrize("name", [name for name, job in JOBS.items() if not isinstance(job, of_runs.RunJob)])
def test_a_job_that_was_planned_with_other_settings_is_refused(name):
    """Whoever edits params.yaml while a workflow runs gets nothing that was planned otherwise."""
    job, cfg = JOBS[name], load_scale("smoke")
    key = job.key(cfg, KEYS)
    words = next(iter(job.commands()))
    planned = json.loads(job.planned(cfg, key))
    last = list(planned)[-1]
    with pytest.raises(UserError, match=rf"params\.yaml: changed since the workflow was planned: {last} was 7, is"):
        call(
            *words.split(), *ARGUMENTS.get(name, ["seg"]), "--scale", "smoke", "--spec", json.dumps(planned | {last: 7})
        )


def test_no_job_starts_without_params(tmp_path, monkeypatch):
    spec = JOBS["train"].planned(load_scale("smoke"), RUN)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"params\.yaml: cannot be read"):
        call("train", RUN.id, "--scale", "smoke", "--spec", spec)


def test_several_processes_start_through_torchrun(jobs, monkeypatch):
    started = []
    monkeypatch.setenv(LAUNCHER, "")  # so that what the command sets ends with the test
    monkeypatch.setattr(of_runs, "load_scale", lambda scale: load_scale(scale, {"processes": 4}))
    monkeypatch.setattr(sys, "argv", ["tap", "train", RUN.id, "--scale", "smoke"])

    def replace_process(program, arguments):
        started.append((program, arguments))
        raise SystemExit

    monkeypatch.setattr(os, "execvp", replace_process)
    call("train", RUN.id, "--scale", "smoke")
    assert started == [
        (
            "torchrun",
            ["torchrun", "--standalone", "--nproc-per-node=4", "-m", "tap.cli", "train", RUN.id, "--scale", "smoke"],
        )
    ]
    assert jobs == []
    monkeypatch.setenv("WORLD_SIZE", "4")
    call("train", RUN.id, "--scale", "smoke")
    assert len(jobs) == 1


@pytest.mark.parametrize("ok", [True, False])
def test_a_check_of_data_leaves_its_report_only_if_all_is_right(tmp_path, monkeypatch, ok):
    def check_settings(data, decode_all):
        report = Report(f"Data in {data.root}", facts=["train: 3 images"])
        if not ok:
            report.problem("a file is cut off", ["a.jpg"])
        return report

    module = SimpleNamespace(check_settings=check_settings)
    monkeypatch.setitem(sys.modules, CHECKED["imagenet"], module)
    of_weights = lambda report, task, settings: report.facts.append(f"weights of {task}")  # noqa: E731
    monkeypatch.setattr("tap.tasks.given_weights.look_at_weights", of_weights)
    path = tmp_path / "report.json"
    result = call("data", "check", "cls", "--scale", "paper", "--report", str(path))
    assert result.exit_code == (0 if ok else 1)
    assert "train: 3 images" in result.output
    assert "weights of cls" in result.output
    assert ("a.jpg" in result.output) != ok
    assert path.is_file() == ok
    if ok:
        assert json.loads(path.read_text()) == {"data": "imagenet", "facts": ["train: 3 images"]}
        record = json.loads((tmp_path / "report.record.json").read_text())
        assert (record["job"], record["parameters"]["data"]["name"]) == ("check", "imagenet")
        assert list(record["outputs"]) == ["outside/report.json"]
