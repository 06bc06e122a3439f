"""dvc.yaml beside the workflow."""

from pathlib import Path

import pytest
import yaml

from tap.config.load import load_scale
from tap.config.methods import METHODS, PRETRAINING
from tap.errors import UserError
from tap.jobs.pipeline import PIPELINE, pipeline
from tap.jobs.registry import JOBS
from tap.provenance.stages import STAGES, stage_named, stage_of
from tap.runs import Run

PIPELINE_STAGES = yaml.safe_load(PIPELINE.read_text())["stages"]


@pytest.mark.slow
def test_the_committed_pipeline_is_the_one_of_today():
    assert PIPELINE.read_text() == pipeline(), "run `tap dvc generate`"


def test_every_method_is_trained_in_one_stage():
    for method in (*METHODS, PRETRAINING):
        assert stage_of(method) in PIPELINE_STAGES
    trained = [method for stage in STAGES for method in stage.methods]
    assert len(trained) == len(set(trained)) == len(METHODS) + 1


def test_no_output_is_removed_before_a_stage_and_none_has_two_owners():
    owned = []
    for stage in PIPELINE_STAGES.values():
        for group in ("outs", "metrics", "plots"):
            for entry in stage.get(group, []):
                ((path, facts),) = entry.items()
                assert facts["persist"]
                owned.append(path)
    assert len(owned) == len(set(owned))
    assert not [(a, b) for a in owned for b in owned if a != b and a.startswith(f"{b}/")]


def test_a_stage_first_refuses_what_was_edited():
    for name, stage in PIPELINE_STAGES.items():
        assert stage["cmd"][0].startswith("tap verify"), name
    assert PIPELINE_STAGES["verify"]["cmd"] == ["tap verify"]
    assert PIPELINE_STAGES["verify"]["always_changed"]


def test_dependencies_are_made_by_earlier_stages_or_kept_by_git():
    made = set()
    for stage in PIPELINE_STAGES.values():
        for path in stage["deps"]:
            assert path in made or Path(path).exists()
        made |= {path for entry in stage.get("outs", []) for path in entry}


def test_parameters_are_there_at_every_scale():
    for scale in ("smoke", "desk", "paper"):
        settings = yaml.safe_load(Path(f"workflow/scales/{scale}.yaml").read_text())
        for stage in PIPELINE_STAGES.values():
            groups = [group for entry in stage["params"] if isinstance(entry, dict) for group in entry.values()]
            for name in [name for group in groups for name in group]:
                value = settings
                for part in name.split("."):
                    value = value[part]


def test_dvc_tells_nobody_and_asks_nobody():
    text = Path(".dvc/config").read_text()
    assert "analytics = false" in text
    assert "check_update = false" in text


def test_an_unknown_stage_names_the_known_ones():
    with pytest.raises(UserError, match="stage 'tops': unknown; one of data, pretrain"):
        stage_named("tops")


def test_stages_ask_for_what_the_kinds_of_jobs_make():
    """Every stage that makes anything has targets, and what a stage's jobs read is made by the stages before it."""
    cfg = load_scale("smoke")
    targets = {}
    for kind in JOBS.values():
        for stage, keys in kind.stages(cfg).items():
            files = [file.as_posix() for key in keys for file in kind.made(cfg, key)]
            targets.setdefault(stage, set()).update(files)
    assert set(targets) == {stage.name for stage in STAGES} - {"verify"}
    owner = {file: stage for stage, files in targets.items() for file in files}
    before = {}
    for stage in STAGES:
        before[stage.name] = set(stage.after).union(*(before[name] for name in stage.after))
    reading = {"evaluate": JOBS["evaluate"], "tap": JOBS["train"], "baselines": JOBS["train"], "base": JOBS["train"]}
    for stage, kind in reading.items():
        runs = {Run.parse("smoke", "/".join(file.split("/")[3:-1])) for file in targets[stage] if "/runs/" in file}
        assert runs
        for run in runs:
            read = [file.as_posix() for files in kind.reads(cfg, run).values() for file in files]
            assert {owner[file] for file in read if file in owner} <= before[stage] | {stage}, run.id
