"""Every kind of job says what the workflow, the command line and a verification ask of it."""

import ast
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tap import cli
from tap.config import load_scale
from tap.errors import UserError
from tap.jobs.kinds.table import Table
from tap.jobs.registry import JOBS, by_name
from tap.plan.runs import runs_of_table

CFG = load_scale("smoke")
RULES = "\n".join(path.read_text() for path in Path("workflow/rules").glob("*.smk"))
RUN = next(run for run in runs_of_table(CFG, "seg") if run.method == "random")
FIELDS = {
    "task": "seg",
    "method": RUN.method,
    "rate": f"{RUN.rate:.2f}",
    "variant": RUN.variant,
    "seed": "0",
    "kind": "layers",
    "search": "options",
    "table": "tab_seg",
    "figure": "fig_insight",
    "of": "further_seg",
    "root": "data/microscopy",
    "scale": "smoke",
    "device": "cpu-some-processor-1t",
    "shapes": "smoke",
}


def stamped():
    """Kinds of jobs whose records are written with a stamp that they are not handed."""
    for path in Path("tap").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Stamp":
                kind = node.args[0]
                if isinstance(kind, ast.Constant):
                    yield kind.value


def test_every_kind_of_record_is_known():
    kinds = {
        "prepare",
        "check",
        "preflight",
        "train",
        "train_joint",
        "tune",
        "endpoint",
        "evaluate",
        "control",
        "picture",
        "kept_patches",
        "probe",
        "gather",
        "gather_probes",
    }
    assert kinds | {
        "profile",
        "growth",
        "verify",
        "table",
        "figure",
        "headline",
        "audit",
        "publish",
        "paper_page",
        "paper_pdf",
    } == set(JOBS)
    assert set(stamped()) - {"by hand"} <= set(JOBS)


@pytest.mark.parametrize("name", JOBS)
def test_a_kind_says_what_it_reads_of_files_settings_and_code(name):
    job = JOBS[name]
    if name == "check":
        job.key_of_record(CFG, {"parameters": {"data": {"name": "microscopy"}}})
    key = job.key(CFG, FIELDS)
    assert job.planned(CFG, key) == job.planned(CFG, job.key(CFG, FIELDS))
    assert bool(job.code(CFG, key)) == (name not in ("verify", "publish")), "copies and lists are no function of code"
    assert all(isinstance(path, Path) for files in job.reads(CFG, key).values() for path in files)
    assert (job.resources(CFG, key).threads or 1) >= 1
    assert job.stamp(CFG, key).job == name
    made = [pattern.format(**FIELDS) for pattern in job.makes.values()]
    assert len(set(made)) == len(made)
    assert any("record" in path or path.endswith(".json") for path in made)


def test_two_kinds_with_one_name_or_one_command_are_refused():
    class Other(Table):
        name = "other"

    class Same(Table):
        command = "same"

    assert list(by_name([JOBS["table"], JOBS["figure"]])) == ["table", "figure"]
    with pytest.raises(
        UserError, match=r"test_registry: `tap table` is the command of 'table' \(tap.jobs.kinds.table\)"
    ):
        by_name([JOBS["table"], Other()])
    with pytest.raises(UserError, match=r"a kind of job is called 'table' in tap.jobs.kinds.table already"):
        by_name([JOBS["table"], Same()])


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_found_by_the_files_that_it_makes(name):
    """`fields` is the inverse of `key`, as far as the settings tell keys apart."""
    job = JOBS[name]
    key = job.key(CFG, FIELDS)
    for fields in job.fields(CFG, key):
        assert job.settings(CFG, job.key(CFG, fields)) == job.settings(CFG, key)
    if name != "publish":  # figures go elsewhere
        made = {
            pattern.format(scale="smoke", **fields) for fields in job.fields(CFG, key) for pattern in job.makes.values()
        }
        assert {path.as_posix() for path in job.made(CFG, key)} == made


@pytest.mark.parametrize("name", JOBS)
def test_a_kind_has_its_command(name):
    for words in JOBS[name].commands():
        result = CliRunner().invoke(cli.app, [*words.split(), "--help"])
        assert result.exit_code == 0, words
        assert "--spec" in result.output, "the workflow hands over what it has planned with"


@pytest.mark.parametrize("name", JOBS)
def test_rules_take_settings_code_and_files_from_the_job(name):
    blocks = re.split(r"\nrule ", RULES)
    used = [block for block in blocks if f'spec("{name}"' in block]
    assert used, "no rule makes it"
    for block in used:
        assert "{{params.spec:q}}" in block, "planned settings are handed over"
        assert f'code("{name}"' in block or name in ("verify", "publish")
        for kind, file in re.findall(r'(?:reads|makes)\("(\w+)", "([^"]+)"', block):
            assert file in JOBS[kind].makes or file in JOBS[kind].reads(CFG, JOBS[kind].key(CFG, FIELDS))


def test_a_record_leads_back_to_its_job():
    """From the stamp of every kind, in the form that a record keeps, to the same key and settings."""
    for name, job in JOBS.items():
        key = job.key(CFG, FIELDS)
        content = {"run": f"smoke/{RUN.id}", "parameters": dict(job.stamp(CFG, key).parameters)}
        if name in ("verify", "publish"):
            content["parameters"] = job.settings(CFG, key)
        again = job.key_of_record(CFG, content)
        assert job.settings(CFG, again) == job.settings(CFG, key), name
