"""Images evaluated anew from weights: who changes what an image gave has to have trained."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from toy_task import SmallClassification, toy_spec

from tap.engine.job import train_run
from tap.paper.deep import reevaluation
from tap.paper.deep.reevaluation import Sample, compare, reevaluate
from tap.plan.runs import run_of
from tap.provenance.ledger import Ledger, Record
from tap.provenance.record import Stamp, read_record
from tap.runs import Run
from tap.studies.evaluation import evaluate_run

RUN = Run("smoke", "cls", "tap", 0.5)


@pytest.fixture
def evaluated(tmp_path, monkeypatch):
    """A run of the toy that was trained and evaluated, in the current folder."""
    monkeypatch.chdir(tmp_path)
    spec = toy_spec("tap")
    train_run(spec, SmallClassification())
    evaluate_run(spec, SmallClassification(), Stamp("evaluate"))
    monkeypatch.setattr(reevaluation, "get_task", lambda spec: SmallClassification())
    return run_of(spec)


def look(run, images=64, seed=0):
    name = f"{run.folder.as_posix()}/evaluation.json"
    records = {name: Record(name, read_record(run.folder / "evaluation.json"), True)}
    task = SimpleNamespace(data=SimpleNamespace(root="none"))
    cfg = SimpleNamespace(tasks={"cls": task}, all_tasks={"cls": task}, device="cpu")
    return reevaluate(cfg, Ledger(Path(), records, {}, (), ()), Sample(seed, images))


def test_honest_values_are_found_again_bit_by_bit(evaluated):
    for images in (64, 3, 1):
        outcome = look(evaluated, images, seed=images)
        assert outcome.lines == []
        assert outcome.compared == {"runs evaluated anew": 1, "images of them": min(images, 9)}


def test_values_that_the_weights_do_not_give_are_found(evaluated):
    path = evaluated.folder / "per_sample.npz"
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["correct"][4] ^= True
    np.savez(path, **arrays)
    (line,) = look(evaluated).lines
    told, found = arrays["correct"][4], not arrays["correct"][4]
    assert line == f"{path}: correct of image 4, one of 1 that differ: recorded {told}, recomputed {found}"


def test_parameters_that_the_model_does_not_have_are_found(evaluated):
    path = evaluated.folder / "metrics.json"
    stated = json.loads(path.read_text())
    path.write_text(json.dumps(stated | {"parameters_added": 7}))
    (line,) = look(evaluated).lines
    assert line == f"{path}: parameters_added: recorded 7, recomputed {stated['parameters_added']}"


def test_other_weights_than_those_of_the_record_are_refused(evaluated):
    path = evaluated.folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    (line,) = look(evaluated).lines
    assert "model.safetensors" in line


def test_runs_without_weights_are_named(evaluated):
    (evaluated.folder / "model.safetensors").unlink()
    outcome = look(evaluated)
    assert outcome.lines == []
    assert outcome.notes == ["not evaluated anew, since their weights are not there: cls/tap/r0.50/main/s0"]


def test_images_are_drawn_by_the_seed_and_differ_between_runs():
    first = Sample(1, 5).of(RUN, 100)
    assert first == Sample(1, 5).of(RUN, 100) == sorted(set(first))
    assert len(first) == 5
    assert first != Sample(2, 5).of(RUN, 100)
    assert first != Sample(1, 5).of(Run("smoke", "cls", "random", 0.5), 100)
    assert Sample(1, 500).of(RUN, 100) == list(range(100))


@pytest.fixture
def values():
    rng = np.random.default_rng(0)
    return {"sample_id": np.arange(40), "scores": rng.random((40, 3), dtype=np.float32), "hits": rng.integers(0, 9, 40)}


def test_elsewhere_real_numbers_may_round_otherwise_and_a_few_images_tip_over(values):
    anew = {name: array.copy() for name, array in values.items()}
    anew["scores"] += np.float32(1e-6)
    anew["hits"][:2] += 1
    everything = list(range(40))
    assert compare("f", everything, values, anew, exact=False) == []
    assert [item.field.split(" ")[0] for item in compare("f", everything, values, anew, exact=True)] == [
        "hits",
        "scores[0]",
    ]
    anew["hits"][2] += 1
    (item,) = compare("f", everything, values, anew, exact=False)
    assert item.recomputed.startswith("8% of 40 differ; at most 5% on another processor")


def test_other_images_and_other_arrays_are_found_everywhere(values):
    anew = {name: array[3:5] for name, array in values.items()}
    assert compare("f", [3, 4], values, anew, exact=False) == []
    (item, _) = compare("f", [2, 4], values, anew, exact=False)
    assert item.field == "sample_id of image 2, one of 1 that differ"
    (item,) = compare("f", [3, 4], values, {"sample_id": anew["sample_id"]}, exact=False)
    assert (item.field, item.recomputed) == ("arrays", "sample_id")


def test_of_all_weights_that_an_evaluation_read_the_model_gets_its_own(monkeypatch):
    """An evaluation of TAP-F holds its register against those of other tasks, whose files it reads too."""
    runs = "results/smoke/runs"
    own = f"{runs}/det/tap_f/r0.50/main/s0/model.safetensors"
    names = [f"{runs}/cls/tap_f/r0.50/main/s0/model.safetensors", own, f"{runs}/seg/mae/model.safetensors"]
    content = {
        "run": "smoke/det/tap_f/r0.50/main/s0",
        "inputs": {name: {"sha256": name.partition("runs/")[2][:3]} for name in names},
    }
    given = []
    monkeypatch.setattr(reevaluation, "load_alone", lambda *arguments: given.append(arguments))
    spec = SimpleNamespace(method="tap_f", task="det")
    reevaluation._load(spec, None, Record("a", content, True), {name: Path(name) for name in names})
    assert given == [(None, "det", Path(names[2]), Path(own), "seg", "det")]
