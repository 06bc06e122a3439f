"""Weights where DVC keeps them, and back."""

from pathlib import Path

import pytest

from tap.config import load_scale
from tap.errors import UserError
from tap.jobs.staleness import Today
from tap.provenance.checkpoints import bring_back, collect, kept_weights
from tap.provenance.finding import Kind
from tap.provenance.stages import BY_NAME, STAGES
from tap.provenance.verify import verify
from tap.runs import Run

TAP, DENSE = Run("smoke", "seg", "tap", 0.5), Run("smoke", "seg", "dense")
STORE = Path("results/smoke/checkpoints")


@pytest.fixture
def collected(finished):
    for stage in STAGES:
        collect(load_scale("smoke"), stage)
    return finished


def test_each_stage_gets_the_weights_that_it_trains(collected):
    files = {path.relative_to(STORE).as_posix() for path in STORE.rglob("*") if path.is_file()}
    assert files == {
        "pretrain/seg/mae/r1.00/main/s0.safetensors",
        "base/seg/dense/r1.00/main/s0.safetensors",
        "base/seg/dense/r1.00/random-encoder/s0.safetensors",
        "base/seg/dense/r1.00/random-encoder-start/s0.safetensors",
        "base/seg/dense/r1.00/start/s0.safetensors",
        "baselines/seg/random/r0.50/main/s0.safetensors",
        "tap/seg/tap/r0.50/main/s0.safetensors",
    }
    weights = TAP.folder / "model.safetensors"
    assert (STORE / "tap" / f"{TAP.id}.safetensors").samefile(weights)
    assert all(Path(folder).is_dir() for folder in ("data/fashion_mnist", "data/microscopy"))


def test_a_stage_without_runs_still_has_its_folder(finished):
    (Path("results/smoke/runs/seg/tap")).rename("elsewhere")
    assert collect(load_scale("smoke"), BY_NAME["tap"]) == []
    assert (STORE / "tap").is_dir()


def test_what_no_run_has_any_more_is_not_kept(collected):
    (DENSE.folder / "model.safetensors").unlink()
    collect(load_scale("smoke"), BY_NAME["base"])
    assert not (STORE / "base" / f"{DENSE.id}.safetensors").exists()


def test_edited_weights_are_not_collected(collected):
    (DENSE.folder / "model.safetensors").unlink()
    (DENSE.folder / "model.safetensors").write_bytes(b"edited")
    before = (STORE / "base" / f"{DENSE.id}.safetensors").read_bytes()
    with pytest.raises(UserError, match=rf"{DENSE.folder}/model\.safetensors: edited"):
        collect(load_scale("smoke"), BY_NAME["base"])
    assert (STORE / "base" / f"{DENSE.id}.safetensors").read_bytes() == before


def test_an_edited_checkpoint_is_found_and_collecting_mends_it(collected):
    cfg, checkpoint = load_scale("smoke"), STORE / "tap" / f"{TAP.id}.safetensors"
    assert verify(cfg, Today(cfg).staleness).findings == ()
    right = checkpoint.read_bytes()
    checkpoint.unlink()  # as DVC puts a copy of its own in place
    checkpoint.write_bytes(right)
    assert verify(cfg, Today(cfg).staleness).findings == ()
    checkpoint.write_bytes(bytes([right[0] ^ 1]) + right[1:])
    assert [(item.path, item.kind) for item in verify(cfg, Today(cfg).staleness).findings] == [
        (checkpoint.as_posix(), Kind.STALE)
    ]
    assert "`tap dvc collect tap` renews it" in str(verify(cfg, Today(cfg).staleness).findings[0])
    assert verify(cfg, Today(cfg).staleness, [TAP.folder / "metrics.json"]).findings == (), "nothing was made from it"
    collect(cfg, BY_NAME["tap"])
    assert checkpoint.read_bytes() == right


def test_weights_come_back_if_they_are_the_right_ones(collected):
    weights = [run.folder / "model.safetensors" for run in (DENSE, TAP)]
    content = [path.read_bytes() for path in weights]
    for path in weights:
        path.unlink()
    checkpoint = STORE / "tap" / f"{TAP.id}.safetensors"
    right = checkpoint.read_bytes()
    checkpoint.write_bytes(right[:-1] + b"x")
    with pytest.raises(UserError, match=rf"{checkpoint}: edited"):
        kept_weights(load_scale("smoke"))
    checkpoint.write_bytes(right)
    kept = kept_weights(load_scale("smoke"))
    assert kept[weights[1].as_posix()] == checkpoint
    assert not any(path.exists() for path in weights)
    bring_back(kept)
    assert [path.read_bytes() for path in weights] == content
    assert kept_weights(load_scale("smoke")) == {}


def test_a_checkpoint_without_a_record_is_refused(collected):
    (TAP.folder / "model.safetensors").unlink()
    (TAP.folder / "run.json").unlink()
    with pytest.raises(UserError, match="unknown: no record says which job made it"):
        kept_weights(load_scale("smoke"))
