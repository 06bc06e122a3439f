"""What a running workflow shows: a line for each job, why, and how long it will still take."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tap.jobs.terminal import _REASONS, OneLine, TimeLeft, earlier_seconds, in_few_words, in_words, show_in_lines

ROOT = Path(__file__).parents[2]


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Missing output files: a.json, b.json; Updated input files: c", "its files are missing"),
        ("Forced execution", "asked for"),
        ("Input files updated by another job: results/x.csv", "what it reads is made anew"),
        ("Params have changed since last execution: before: 1, now: 2", "its settings or code changed"),
        ("Output file is a pipe and has to be filled for consuming job.", "it has to"),
    ],
)
def test_a_reason_has_few_words(reason, words):
    assert in_few_words(reason) == words


def test_no_reason_has_more_than_ten_words():
    assert max(len(words.split()) for _, words in _REASONS) <= 10


def test_records_of_earlier_runs_say_how_long_jobs_take(tmp_path):
    def record(place, **content):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    record("runs/cls/mae/r1.00/main/s0/run.json", job="train", wall_seconds=100)
    record("runs/cls/dense/r1.00/main/s0/run.json", job="train", wall_seconds=40)
    record("runs/cls/tap/r0.50/main/s0/run.json", job="train", wall_seconds=10)
    record("runs/cls/tap/r0.30/main/s0/run.json", job="train", wall_seconds=20)
    record("figures/fig_insight.record.json", job="figure", wall_seconds=3)
    record("endpoint_seg.json", endpoint=1.0)
    (tmp_path / "half.json").write_text("{")
    assert earlier_seconds(tmp_path) == {"pretrain": 100, "train_dense": 40, "train_method": 15, "figures_of_probes": 3}


def test_the_time_left_follows_records_and_then_the_pace_of_this_run():
    clock = Clock()
    left = TimeLeft({"train": 60.0, "evaluate": 6.0}, at_once=2, clock=clock)
    left.plan({"train": 10, "evaluate": 10, "total": 20})
    assert left.seconds() == (600 + 60) / 2
    for number in range(6):  # four at once, in truth
        left.start(number, "train")
        clock.now += 15
        left.end(number)
    assert left.seconds() == pytest.approx((4 * 60 + 60) / 4)


def test_without_records_the_first_jobs_tell():
    clock = Clock()
    left = TimeLeft({}, at_once=1, clock=clock)
    left.plan({"train": 3, "gather": 1, "total": 4})
    assert left.seconds() is None
    left.start(1, "train")
    clock.now = 10
    left.end(1)
    assert left.seconds() == 30  # two trainings, and a gathering that is taken for one
    assert [in_words(seconds) for seconds in (None, 0.2, 89, 600, 9000)] == [
        "", ", about 1 s left", ", about 89 s left", ", about 10 min left", ", about 2.5 h left",
    ]  # fmt: skip


def test_lines_of_jobs_and_of_progress():
    clock = Clock()
    lines = OneLine(logging.Formatter(), TimeLeft({"train": 30.0}, 1, clock))

    def line(message=None, **event):
        record = logging.makeLogRecord({"msg": message, "levelno": logging.INFO, "levelname": "INFO", **event})
        return lines.format(record)

    assert line("table", event="run_info", stats={"train": 2, "total": 2}) == "table\n2 to do, about 60 s left"
    job = {"jobid": 4, "rule_name": "train", "wildcards": {"task": "cls"}, "reason": "Missing output files: x"}
    told = line(event="job_info", rule_msg="Train cls/tap", **job)
    assert re.fullmatch(r"\[\d\d:\d\d:\d\d\] Train cls/tap: its files are missing", told)
    assert line(event="job_info", rule_msg=None, **job).endswith("] train cls: its files are missing")
    clock.now = 20
    assert line(event="job_finished", job_id=4) == ""
    assert line(event="progress", done=1, total=2) == "1 of 2 done, about 30 s left"
    assert line("Select jobs to execute...") == line("Execute 2 jobs...") == ""
    assert line("Something else") == "Something else"


def test_another_handler_s_terminal_and_a_talkative_one_stay():
    logger = logging.Logger("some", logging.INFO)
    logger.addHandler(logging.StreamHandler())
    before = list(logger.handlers)
    show_in_lines(logger, [Path("nowhere")], 1)
    assert logger.handlers == before


SNAKEFILE = """
from pathlib import Path
from tap.jobs.terminal import show_in_lines
show_in_lines(logger, [Path("published"), Path("results")], 1)
rule all:
    input: "b.txt"
rule first:
    output: "a.txt"
    message: "Make {output}"
    shell: "echo one > {output}"
rule second:
    input: "a.txt"
    output: "b.txt"
    shell: "cp {input} {output}"
"""


@pytest.mark.slow
def test_snakemake_s_own_log_file_keeps_the_full_reasons(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    for folder, seconds in (("published", 9e9), ("results", 600)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "second.json").write_text(json.dumps({"job": "second", "wall_seconds": seconds}))
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [re.sub(r"^\[[\d:]+\]", "[]", line) for line in done.stderr.splitlines()]
    assert "[] Make a.txt: its files are missing" in lines
    assert "[] second: its files are missing" in lines
    assert any(re.fullmatch(r"1 of 3 done, about 1\d min left", line) for line in lines)
    assert "2 of 3 done, about 5 min left" in lines
    assert "Finished jobid" not in done.stderr
    (log,) = (tmp_path / ".snakemake/log").iterdir()
    assert "Missing output files: b.txt; Input files updated by another job: a.txt" in " ".join(log.read_text().split())
