"""Probes of one checkpoint: what is measured, on which images, and what is published."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from toy_task import SmallClassification, toy_spec

from tap.config.jobs import run_of
from tap.config.load import load_scale
from tap.config.methods import CRITERIA as NAMES
from tap.config.schema import ProbeConfig
from tap.criteria.registry import CRITERIA, get
from tap.engine.job import train_run
from tap.errors import UserError
from tap.studies import probes as study
from tap.studies.probe_encoder import Probe, ProbeEncoder

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
TASK = SmallClassification()


def small_model(**settings):
    spec = toy_spec("dense", **settings)
    torch.manual_seed(0)
    model = TASK.build_model(spec)
    with torch.no_grad():  # so that it matters what is removed
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return spec, model.eval()


def all_probes(layers=(2, 1)):
    return [Probe(layer, criterion) for layer in layers for criterion in CRITERIA.values()]


def test_settings_and_code_know_the_same_criteria():
    assert tuple(NAMES) == tuple(CRITERIA)


def test_each_probe_is_measured_as_if_it_were_alone():
    spec, model = small_model()
    frozen = model.encoder
    found = study.measure(TASK, model, spec, all_probes(), ProbeConfig(keep_rate=0.5), CPU)
    assert model.encoder is frozen
    assert set(found) == {None, *all_probes()}
    evaluation = TASK.evaluate(model, spec, "validation", CPU)
    assert found[None].keys() == TASK.condensed(evaluation.per_sample).keys()
    for name, values in found[None].items():
        np.testing.assert_array_equal(values, evaluation.per_sample[name])
    assert any((values["correct"] != found[None]["correct"]).any() for values in found.values())
    batch = next(iter(TASK.loader(TASK.datasets(spec).validation, spec.model_copy(update={"eval": _batches_of(9)}))))
    for probe in all_probes():
        model.encoder = ProbeEncoder(frozen, 0.5, [probe.criterion], spec.seed)
        model.encoder.rewind(probe)
        with torch.inference_mode():
            alone = TASK.judge(model, spec, batch)
        assert set(alone["final_tokens"]) == {2}
        for name, values in found[probe].items():
            np.testing.assert_array_equal(values, alone[name])


def _batches_of(size):
    return toy_spec().eval.model_copy(update={"batch_size": size})


def test_fewer_images_are_a_fixed_choice():
    spec, model = small_model()
    whole = study.measure(TASK, model, spec, all_probes((1,)), ProbeConfig(), CPU)
    some = [study.measure(TASK, model, spec, all_probes((1,)), ProbeConfig(images=5), CPU) for _ in range(2)]
    chosen = some[0][None]["sample_id"]
    assert len(set(chosen)) == 5
    rows = np.isin(whole[None]["sample_id"], chosen)
    for probe, values in whole.items():
        for name in values:
            np.testing.assert_array_equal(some[0][probe][name], values[name][rows])
            np.testing.assert_array_equal(some[0][probe][name], some[1][probe][name])
    more = study.measure(TASK, model, spec, all_probes((1,)), ProbeConfig(images=100), CPU)
    np.testing.assert_array_equal(more[None]["sample_id"], whole[None]["sample_id"])


def test_a_failure_leaves_the_model_as_it_was():
    spec, model = small_model()
    frozen = model.encoder
    with pytest.raises(UserError, match="block 3 is not one of the model's 2"):
        study.measure(TASK, model, spec, all_probes((3,)), ProbeConfig(), CPU)
    assert model.encoder is frozen


def test_blocks_that_attend_globally_are_eligible():
    blocks = [SimpleNamespace(attn=SimpleNamespace(side=side)) for side in (4, 4, None, 4, 4, None)]
    encoder = SimpleNamespace(vit=SimpleNamespace(blocks=blocks))
    assert study.eligible_layers(encoder, ProbeConfig()) == (3, 6)
    assert study.eligible_layers(encoder, ProbeConfig(layers=(6,))) == (6,)
    with pytest.raises(UserError, match=r"block 5 cannot be probed; eligible are 3, 6"):
        study.eligible_layers(encoder, ProbeConfig(layers=(3, 5)))
    assert study.eligible_layers(small_model()[1].encoder, ProbeConfig()) == (1, 2)


@pytest.mark.parametrize(("full", "stand_in", "better"), [(4.0, 3.0, 1.0), (3.0, 4.0, 0.0), (4.0, 4.0, 1.0)])
def test_the_endpoint_with_the_better_mean_is_preferred(tmp_path, full, stand_in, better):
    columns = ["criterion", "endpoint", "metric", "value"]
    rows = [("coverage", 1.0, "miou", full - 1), ("coverage", 1.0, "miou", full + 1)]
    rows += [("coverage", 0.0, "miou", stand_in), ("dense", None, "miou", 99.0)]
    rows += [("coverage", alpha, "other", 100 * (alpha != better)) for alpha in (0.0, 1.0)]
    path = tmp_path / "values.csv"
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    assert study.preferred_endpoint(path, "miou") == better


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """A trained no-pruning run of the toy task, and a scale whose jobs it stands for."""
    monkeypatch.chdir(tmp_path)
    spec = toy_spec("dense")
    monkeypatch.setattr(study, "job_spec", lambda cfg, run: toy_spec("dense", seed=run.seed))
    monkeypatch.setattr(study, "get_task", lambda spec: TASK)
    return spec, load_scale("smoke", root=ROOT)


def test_a_layer_probe_publishes_values_and_what_is_behind_them(checkpoint):
    spec, cfg = checkpoint
    with pytest.raises(UserError, match=r"dense/r1\.00/main/s0 is not trained yet"):
        study.run_layer_probe(cfg, "cls")
    train_run(spec, TASK)
    path = study.run_layer_probe(cfg, "cls")
    frame = pd.read_csv(path)
    assert path.as_posix() == "results/smoke/probes/cls/layers/values.csv"
    assert set(zip(frame["criterion"], frame["layer"], strict=True)) == {
        ("dense", 0),
        *((name, layer) for name in CRITERIA for layer in (1, 2)),
    }
    assert set(frame["metric"]) == {"top1"}
    assert set(frame["run"]) == {run_of(spec).id}
    probed = frame[frame["criterion"] != "dense"]
    assert (set(probed["keep_rate"]), set(probed["tokens"])) == ({cfg.tasks["cls"].probes.keep_rate}, {2.0})
    assert (set(frame["images"]), frame["endpoint"].isna().all()) == ({9}, True)
    archive = np.load(io.BytesIO((path.parent / "per_sample.npz").read_bytes()))
    assert len(archive["sample_id"]) == 9
    for _, row in frame.iterrows():
        assert row["value"] == pytest.approx(100 * archive["correct"][row["position"]].mean())
    record = json.loads((path.parent / "probe.json").read_text())
    assert sorted(record["outputs"]) == [f"{path.parent}/per_sample.npz", f"{path.parent}/values.csv"]
    assert f"{run_of(spec).folder}/model.safetensors" in record["inputs"]


def test_probing_again_gives_the_same_bytes(checkpoint):
    spec, cfg = checkpoint
    train_run(spec, TASK)
    found = []
    for _ in range(2):
        path = study.run_layer_probe(cfg, "cls")
        found.append((path.read_bytes(), (path.parent / "per_sample.npz").read_bytes()))
    assert found[0] == found[1]


def test_what_has_no_probe_is_said(checkpoint):
    _, cfg = checkpoint
    with pytest.raises(UserError, match="classification restores nothing; name seg or det"):
        study.run_recovery_probe(cfg, "cls")
    with pytest.raises(UserError, match="run `tap probe recovery` for this task first"):
        study.run_layer_probe(cfg, "seg")


def test_the_random_criterion_follows_the_seed_of_the_checkpoint():
    probe = Probe(1, get("random"))
    spec, model = small_model()
    kept = []
    for seed in (0, 0, 1):
        encoder = ProbeEncoder(model.encoder, 0.5, [probe.criterion], seed)
        encoder.rewind(probe)
        batch = next(iter(TASK.loader(TASK.datasets(spec).validation, spec)))
        with torch.inference_mode():
            kept.append(encoder(batch.images, batch.sample_ids).tokens.index)
    assert torch.equal(kept[0], kept[1])
    assert not torch.equal(kept[0], kept[2])
