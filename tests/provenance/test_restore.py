"""What restoring tells Snakemake. That Snakemake then has nothing to do is shown in tests/workflow/test_evidence.py."""

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.jobs.staleness import Today
from tap.provenance import restore as restoring
from tap.provenance.checkpoints import collect
from tap.provenance.stages import STAGES
from tap.runs import Run

TAP, DENSE = (Run("smoke", "seg", method, rate).folder for method, rate in (("tap", 0.5), ("dense", 1.0)))


def restored(left_out=()):
    """What a restoration of the smoke scale says."""
    cfg = load_scale("smoke")
    return restoring.restore(cfg, Today(cfg).staleness, left_out=left_out)


@pytest.fixture
def told(finished, monkeypatch):
    """Files that Snakemake is told to take for done."""
    targets = []

    def run(command, **_):
        assert command[-4:] == ["--touch", "--forceall", "--config", "scale=smoke"]
        targets.extend(command[3:-4])
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    return targets


def state():
    return {path: path.stat().st_mtime_ns for path in Path().rglob("*")}


def test_everything_sound_is_taken_for_done(told):
    assert restored().startswith("restored 23 of 23 jobs of scale smoke")
    assert "results/smoke/audit/audit.html" in told
    assert any(name.startswith("paper_tables/tab_seg.") for name in told)
    assert not [name for name in told if name.endswith("model.safetensors")], "reached from what was made of it"


def test_published_tables_come_back(told):
    for path in Path("paper_tables").iterdir():
        path.unlink()
    restored()
    tables = Path("results/smoke/tables")
    assert (Path("paper_tables") / "tab_seg.tex").read_bytes() == (tables / "tab_seg.tex").read_bytes()


@pytest.mark.parametrize("name", [f"{TAP}/metrics.json", f"{DENSE}/model.safetensors", "data/microscopy/README.md"])
def test_an_edited_file_is_refused_and_nothing_is_touched(told, name):
    with open(name, "a") as file:
        file.write(" ")
    before = state()
    with pytest.raises(UserError, match=rf"^{name}: edited"):
        restored()
    assert state() == before
    assert told == []


def test_kept_weights_stay_where_they_are_if_something_else_is_edited(told):
    for stage in STAGES:
        collect(load_scale("smoke"), stage)
    (DENSE / "model.safetensors").unlink()
    with open(TAP / "log.csv", "a") as file:
        file.write(" ")
    before = state()
    with pytest.raises(UserError, match="edited"):
        restored()
    assert state() == before


def test_stale_results_are_left_for_snakemake_to_make_again(told):
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("[0.5]", "[0.5], controller.tau_end: 0.2"))
    (line,) = restored().splitlines()
    assert "stale" in line
    assert f"{TAP}/model.safetensors" in line
    assert (TAP / "model.safetensors").stat().st_mtime < (DENSE / "model.safetensors").stat().st_mtime
    assert f"{DENSE}/picture.png" in told
    assert not [name for name in told if "/tap/" in name or "tab_seg" in name]


def test_without_the_weights_only_what_needs_none_is_taken_for_done_and_the_tables_rest_on_air(told):
    for path in Path("results").rglob("model.safetensors"):
        path.unlink()
    with pytest.raises(
        UserError, match=r"^restored 1 of 23 jobs of scale smoke; 1 tables and figures would"
    ) as refused:
        restored()
    assert len(str(refused.value).splitlines()) == 1
    assert "results/smoke/runs/seg: missing: 7 files called model.safetensors" in str(refused.value)
    assert told == ["data/microscopy/README.md"]


def test_a_missing_picture_is_named_with_the_audit_that_shows_it_and_no_failure(told):
    (DENSE / "picture.png").unlink()
    assert restored().startswith(
        f"restored 21 of 23 jobs of scale smoke; snakemake makes again: {DENSE}/picture.png: missing"
    )


def test_weights_that_an_archive_leaves_out_are_told_with_the_claims_on_them_and_no_failure(told, monkeypatch):
    (TAP / "model.safetensors").unlink()
    left_out = [f"{TAP}/model.safetensors"]
    monkeypatch.setattr(restoring, "claims_resting_on", lambda audit, weights: ["gain"] if weights else [])
    assert restored(left_out).endswith(
        "the archive leaves out the weights of 1 runs, which snakemake trains; "
        "1 claims rest on images that nobody can evaluate anew: gain"
    )
    (DENSE / "model.safetensors").unlink()
    with pytest.raises(UserError, match="tables and figures would rest on what is not there"):
        restored(left_out)


def test_nothing_at_all_is_said(finished, monkeypatch):
    for folder in ("results", "data", "paper_tables"):
        shutil.rmtree(folder)
    with pytest.raises(UserError, match="nothing to restore; `tap restore --bundle FILE` brings it"):
        restored()
