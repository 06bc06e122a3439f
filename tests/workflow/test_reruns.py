"""What an edit repeats. The results are empty files that Snakemake is told to accept, so nothing is trained here."""

import json
import os
from datetime import UTC, datetime

import pytest

from tap.provenance.record import Stamp, record_job

RECORD = "results/smoke/all.record.json"
TABLE = "results/smoke/tables/tab_cls.tex"
ON_IMPORT = "\nprint(end='')\n"
AFTER_ONE_RUN = {"train_method": 1, "evaluate": 1, "gather": 1, "verify": 1, "table": 1}
RESULTS = {"gather": 1, "verify": 1, "table": 1}
JOINT = {"train_joint": 2}  # TAP-F at the main keep rate, and its start
ALL_THAT_COMPUTE = {"pretrain": 1, "train_dense": 2, "train_method": 11, **JOINT, "evaluate": 13}


def record_of(project, files):
    """One record for all files."""
    record_job(
        project.folder / RECORD,
        Stamp("all"),
        inputs=[],
        outputs=[project.folder / name for name in files],
        started=datetime.now(UTC),
        root=project.folder,
    )


@pytest.fixture
def done(project):
    """A project in which the table of the smoke scale is made."""
    plan = project.snakemake(TABLE, "--summary").stdout.splitlines()
    files = [line.split("\t")[0] for line in plan[1:]]
    assert TABLE in files
    for name in files:
        (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / name).write_text("{}" if name.endswith(".json") else "")
    record_of(project, files)
    touched = project.snakemake(TABLE, "--touch", "--forceall")
    assert touched.returncode == 0, touched.stderr
    return project


@pytest.mark.slow
@pytest.mark.long
def test_an_edit_repeats_exactly_what_it_concerns(done):
    assert done.planned(TABLE) == {}

    done.edit("tap/core/straight_through.py", "\nimport torch\n", "\n# A comment.\nimport torch\n")
    (done.folder / "params.yaml").write_text("scale: smoke\noverrides: {smoke: {tasks.seg.dense.length: 9}}\n")
    assert done.planned(TABLE) == {}, "a comment, and a setting of another task"

    with open(done.folder / "tap/core/budget.py", "a") as file:
        file.write("\ndef unused() -> None:\n    raise ValueError\n")
    assert done.planned(TABLE) == {}, "a function that no job reaches"

    (done.folder / "params.yaml").write_text("scale: smoke\noverrides: {smoke: {tasks.cls.profile.iterations: 9}}\n")
    assert done.planned(TABLE) == {}, "a setting of profiles"

    (done.folder / "params.yaml").write_text("scale: smoke\noverrides: {smoke: {tasks.cls.eval.batch_size: 9}}\n")
    assert done.planned(TABLE) == {"evaluate": 13} | RESULTS, "a setting of the evaluation"

    (done.folder / "params.yaml").write_text("scale: smoke\noverrides: {smoke: {tasks.cls.method.length: 9}}\n")
    assert done.planned(TABLE) == {"train_dense": 1, "train_method": 11, "evaluate": 12} | RESULTS, "the common budget"

    (done.folder / "params.yaml").write_text("scale: smoke\noverrides: {smoke: {keep_rates: [0.4, 0.5, 0.7]}}\n")
    assert done.planned(TABLE) == {}, "a keep rate that the table does not show"
    (done.folder / "params.yaml").write_text("scale: smoke\n")


@pytest.mark.slow
@pytest.mark.long
def test_changed_code_repeats_exactly_the_jobs_that_run_it(done):
    original = (done.folder / "tap/reducers/static.py").read_text()
    done.edit(
        "tap/reducers/static.py",
        "\nfrom __future__ import annotations\n",
        "\nfrom __future__ import annotations\nprint(end='')\n",
    )
    assert done.planned(TABLE) == AFTER_ONE_RUN, "one method"
    (done.folder / "tap/reducers/static.py").write_text(original)

    with open(done.folder / "tap/core/temperature.py", "a") as file:
        file.write(ON_IMPORT)
    assert done.planned(TABLE) == {"train_method": 1, **JOINT, "evaluate": 2} | RESULTS, "what only TAP uses"

    with open(done.folder / "tap/core/selection.py", "a") as file:
        file.write(ON_IMPORT)
    without_tome = {"train_method": 10, **JOINT, "evaluate": 11} | RESULTS
    assert done.planned(TABLE) == without_tome, "what no pruning and ToMe do without"

    with open(done.folder / "tap/paper/tables/latex.py", "a") as file:
        file.write(ON_IMPORT)
    assert done.planned(TABLE) == without_tome, "tables as well"


@pytest.mark.slow
@pytest.mark.long
def test_a_library_upgrade_repeats_what_computes_with_it_and_is_the_reason(done):
    done.edit(
        "tap/provenance/fingerprint.py",
        "        return metadata.version(library)\n",
        '        return "9.9" if library == "torch" else metadata.version(library)\n',
    )
    assert done.planned(TABLE) == ALL_THAT_COMPUTE | RESULTS
    assert "main/s0: its settings or code changed" in done.snakemake(TABLE, "--dry-run").stdout
    said = done.snakemake(TABLE, "--dry-run", "--verbose")
    assert "torch==9.9" in said.stdout + said.stderr


@pytest.mark.slow
@pytest.mark.long
def test_a_newer_input_repeats_what_is_made_of_it(done):
    start = done.folder / "results/smoke/runs/cls/dense/r1.00/start/s0/model.safetensors"
    start.write_text("other weights")
    record_of(done, [*json.loads((done.folder / RECORD).read_text())["outputs"]])
    later = start.stat().st_mtime + 100
    os.utime(start, (later, later))
    assert done.planned(TABLE) == {"train_dense": 1, "train_method": 11, "evaluate": 12} | RESULTS


@pytest.mark.slow
@pytest.mark.long
def test_what_is_missing_or_unsound_is_made_again_although_everything_that_is_made_of_it_is_there(done):
    weights = done.folder / "results/smoke/runs/cls/tap/r0.50/main/s0/model.safetensors"
    weights.unlink()
    assert done.planned(TABLE)["train_method"] >= 1
    weights.write_text("edited")
    assert done.planned(TABLE)["train_method"] >= 1
    weights.write_text("")
    assert done.planned(TABLE) == {}, "put back"
