"""The probe jobs on the project's classification: values, records, and what they refuse."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from tiny_models import tiny_encoder
from toy_task import SmallClassification, toy_spec

from tap.config import load_scale
from tap.config.measuring import ProbeConfig
from tap.criteria.registry import get
from tap.encoder.vitdet import place_on_grid
from tap.engine import passes
from tap.engine.job import train_run
from tap.errors import UserError
from tap.jobs.kinds.probe import JOB, ProbeKey
from tap.jobs.staleness import Today
from tap.paper.tidy_probes import gather_probes
from tap.plan.runs import dense_run, probe_folder
from tap.plan.specs import job_spec
from tap.provenance.record import read_record
from tap.studies import probes
from tap.studies.probe_encoder import Probe
from tap.task_facts import SEG

CPU = torch.device("cpu")
TOY = {
    "tasks.cls.pretrain.share": None,  # of other sizes than the other tasks
    "tasks.cls.pretrain.weights": "none.pth",
    "tasks.seg.pretrain.mix": None,
    "tasks.cls.model.channels": 1,
    "tasks.cls.model.patch_size": 4,
    "tasks.cls.data.mean": [0.3],
    "tasks.cls.data.std": [0.4],
    "tasks.cls.methods": ["dense", "tap"],
    "tasks.cls.data.num_classes": 3,
    "tasks.cls.model.image_size": 8,
    "tasks.cls.model.width": 12,
    "tasks.cls.model.heads": 2,
    "tasks.cls.eval.batch_size": 4,
    "tasks.cls.probes.images": 7,
    "tasks.cls.probes.layers": [1, 2, 12],
    "tasks.cls.eval.threads": 1,
}


@pytest.fixture
def model():
    task = SmallClassification()
    spec = toy_spec("dense")
    torch.manual_seed(1)
    found = task.build_model(spec)
    torch.nn.init.normal_(found.head.weight)
    return task, spec, found


def test_no_pruning_is_what_the_evaluation_finds_and_probes_are_what_each_finds_alone(model):
    task, spec, classifier = model
    encoder = classifier.encoder
    settings = ProbeConfig(keep_rate=0.5)
    asked = [Probe(layer, get(name)) for layer in (1, 2) for name in ("random", "coverage", "key_l2")]
    found = probes.measure(task, classifier, spec, asked, settings, CPU)
    assert classifier.encoder is encoder
    expected = task.evaluate(classifier, spec, "validation", CPU)
    assert set(found) == {*asked, None}
    for name, values in expected.per_sample.items():
        assert np.array_equal(found[None][name], values), name
    for probe in asked:
        alone = probes.measure(task, classifier, spec, [probe], settings, CPU)[probe]
        assert np.array_equal(found[probe]["correct"], alone["correct"])
        assert set(found[probe]["final_tokens"]) == {2}


def test_with_keep_rate_1_every_probe_is_the_dense_evaluation(model):
    task, spec, classifier = model
    asked = [Probe(layer, get(name)) for layer in (1, 2) for name in ("random", "token_redundancy")]
    found = probes.measure(task, classifier, spec, asked, ProbeConfig(keep_rate=1.0), CPU)
    expected = task.evaluate(classifier, spec, "validation", CPU)
    for probe in asked:
        assert task.score(spec, found[probe]) == expected.metrics


def test_a_limit_takes_the_same_images_for_every_probe(model):
    task, spec, classifier = model
    probe = Probe(1, get("random"))
    few = probes.measure(task, classifier, spec, [probe], ProbeConfig(images=4), CPU)
    assert len(few[None]["sample_id"]) == 4
    assert np.array_equal(few[None]["sample_id"], few[probe]["sample_id"])
    everything = probes.measure(task, classifier, spec, [probe], ProbeConfig(images=99), CPU)
    place = np.searchsorted(everything[None]["sample_id"], few[None]["sample_id"])
    assert np.array_equal(everything[probe]["correct"][place], few[probe]["correct"])


def test_eligible_blocks_attend_globally():
    plain = tiny_encoder("dense", 1.0, depth=3)
    assert probes.eligible_layers(plain, ProbeConfig()) == (1, 2, 3)
    assert probes.eligible_layers(plain, ProbeConfig(layers=(2,))) == (2,)
    trunk = tiny_encoder("dense", 1.0, depth=4, class_token=False)
    place_on_grid(trunk.vit, 2, (2, 4), (4, 4), relative=False)
    assert probes.eligible_layers(trunk, ProbeConfig()) == (2, 4)
    with pytest.raises(UserError, match="block 3 cannot be probed; eligible are 2, 4"):
        probes.eligible_layers(trunk, ProbeConfig(layers=(2, 3)))


@pytest.mark.parametrize(("full", "expected"), [(3.0, 1.0), (1.0, 0.0), (2.0, 1.0)])
def test_the_preferred_endpoint_has_the_better_mean(tmp_path, full, expected):
    path = tmp_path / "values.csv"
    rows = [("dense", np.nan, "miou", 9.0), ("coverage", 1.0, "miou", full), ("coverage", 0.0, "miou", 2.0)]
    rows += [("coverage", 1.0, "other", 0.0), ("coverage", 0.0, "other", 50.0)]
    pd.DataFrame(rows, columns=["criterion", "endpoint", "metric", "value"]).to_csv(path, index=False)
    assert probes.preferred_endpoint(path, SEG.score) == expected


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Settings of a toy scale whose no-pruning run is trained."""
    cfg = load_scale("smoke", TOY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probes, "get_task", lambda spec: SmallClassification())
    spec = job_spec(cfg, dense_run(cfg, "cls", 0))
    train_run(spec.model_copy(update={"start_from": "scratch"}), SmallClassification())
    return cfg


def test_the_layer_probe_writes_values_images_and_a_record(trained):
    path = probes.run_layer_probe(trained, "cls", JOB.stamp(trained, ProbeKey("cls", "layers")))
    frame = pd.read_csv(path)
    assert len(frame) == 3 * 11 + 1
    assert sorted(frame["layer"].unique()) == [0, 1, 2, 12]
    assert set(frame["tokens"]) == {4.0, 2.0}
    with np.load(path.with_name("per_sample.npz")) as arrays:
        assert arrays["correct"].shape == (34, 7)
        for row in frame.itertuples():
            assert row.value == pytest.approx(100 * arrays["correct"][row.position].mean())
        assert "final_tokens" not in arrays
    record = read_record(path.with_name("probe.json"))
    assert record["parameters"]["kind"] == "layers"
    assert record["checkpoints"] == ["cls/dense/r1.00/main/s0"]
    assert "results/smoke/runs/cls/dense/r1.00/main/s0/model.safetensors" in record["inputs"]
    assert len(gather_probes("smoke", "cls")) == len(frame)
    before = path.with_name("per_sample.npz").read_bytes()
    probes.run_layer_probe(trained, "cls")
    assert path.with_name("per_sample.npz").read_bytes() == before


def test_a_killed_probe_goes_on_and_ends_with_the_same_bits(trained, monkeypatch, capsys):
    path = probes.run_layer_probe(trained, "cls")
    files = path, path.with_name("per_sample.npz")
    whole = [file.read_bytes() for file in files]
    seen, evaluate = [], SmallClassification.evaluate_batch

    def dies(self, model, spec, batch):
        seen.append(batch)
        if len(seen) == 50:  # of 34 a batch
            raise KeyboardInterrupt
        return evaluate(self, model, spec, batch)

    monkeypatch.setattr(passes, "KEEP_SECONDS", 0.0)
    monkeypatch.setattr(SmallClassification, "evaluate_batch", dies)
    with pytest.raises(KeyboardInterrupt):
        probes.run_layer_probe(trained, "cls")
    assert [file.read_bytes() for file in files] == whole  # untouched
    probes.run_layer_probe(trained, "cls")
    assert len(seen) == 50 + 34
    assert "probe layers cls: goes on after 1 batches" in capsys.readouterr().err
    assert [file.read_bytes() for file in files] == whole


def test_a_record_is_current_until_a_setting_of_the_probe_changes(trained):
    path = probes.run_layer_probe(trained, "cls", JOB.stamp(trained, ProbeKey("cls", "layers"))).with_name("probe.json")
    content = json.loads(path.read_text())
    assert Today(trained).staleness(content) is None
    changed = trained.tasks["cls"].model_copy(
        update={"probes": ProbeConfig(images=7, layers=(1, 2, 12), keep_rate=0.25)}
    )
    other = trained.model_copy(update={"tasks": trained.tasks | {"cls": changed}})
    assert "probes.keep_rate was 0.5, is 0.25" in Today(other).staleness(content)
    unread = trained.tasks["cls"].model_copy(update={"methods": ("dense",)})
    assert Today(trained.model_copy(update={"tasks": trained.tasks | {"cls": unread}})).staleness(content) is None


def test_what_cannot_be_probed_is_refused(trained):
    with pytest.raises(UserError, match="cls restores nothing; name seg or det"):
        probes.run_recovery_probe(trained, "cls")
    with pytest.raises(UserError, match="the recovery probe is not made yet"):
        probes.run_layer_probe(trained, "seg")
    with pytest.raises(UserError, match=r"run det/dense/r1\.00/main/s0 is not trained yet"):
        probes.run_recovery_probe(trained, "det")
    assert not probe_folder("smoke", "cls", "layers").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"criteria": ["best"]}, "'best' is not known; choose from random, attention_mean"),
        ({"criteria": ["random", "random"]}, "twice"),
        ({"criteria": []}, "criteria is empty"),
        ({"layers": [2, 2]}, "increasing block numbers"),
        ({"layers": [13]}, "names block 13 of a model with 12 blocks"),
        ({"keep_rate": 0.0}, "greater than 0"),
        ({"keep_rate": 1.5}, "less than or equal to 1"),
        ({"images": 0}, "greater than or equal to 1"),
    ],
)
def test_wrong_settings_stop_before_any_job(settings, message):
    with pytest.raises(UserError, match=rf"(?s)probes.*{message}"):
        load_scale("smoke", {f"tasks.seg.probes.{name}": value for name, value in settings.items()})
