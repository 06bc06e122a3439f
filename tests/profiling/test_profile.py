"""A profile of tiny models: exact counts, operations, components, rounds, and what stands in for bad input."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import tiny_encoder, tiny_images

from tap.config.methods import DENSE, TAP
from tap.errors import UserError
from tap.plan import profiles
from tap.plan.profiles import PRINTED_SPLITS, ProfileKey, device_key, parameters, protocol, subjects
from tap.profiling import profile as profiling
from tap.profiling.components import COMPONENTS, Stopwatch, components
from tap.profiling.flops import of_encoder
from tap.profiling.method_flops import from_counts
from tap.profiling.profile import profile, profiled_images
from tap.profiling.subjects import follow, trained_split

CPU = torch.device("cpu")
KEY = ProfileKey("cpu-some-1t", "smoke", "seg")


@pytest.fixture(scope="module")
def found() -> dict:
    how = replace(protocol(KEY), compiled=True)
    return profile(KEY, how, [DENSE, TAP, "random", "tap@0.30"], CPU, compiler=lambda module: module)


def test_every_method_has_both_sides_and_a_bound(found):
    assert set(found["methods"]) == {DENSE, TAP, "random", "tap@0.30"}
    for name, facts in found["methods"].items():
        assert facts["images_per_second"] > 0
        assert len(facts["eager"]["rounds"]) == len(facts["compiled"]["rounds"]) == 2
        assert facts["of_bound"] == pytest.approx(facts["speedup"] / facts["bound"])
        assert (facts["full"] is None) == (name != TAP)
    assert found["methods"][DENSE]["bound"] == 1
    assert found["methods"]["tap@0.30"]["bound"] > found["methods"][TAP]["bound"] > 1.3
    assert found["methods"]["tap@0.30"]["title"] == found["methods"][TAP]["title"]
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(found, allow_nan=False))


def test_counts_are_exact_and_shares_are_the_printed_ones(found):
    checks = found["checks"]
    assert checks["exact_k"]
    assert [100 * share for share in checks["mean_shares"]] == pytest.approx(
        [mean for mean, _ in PRINTED_SPLITS["seg"]], abs=1.0
    )
    for facts in found["methods"].values():
        assert facts["flops_formula_over_torch"] == pytest.approx(1, abs=0.01)


def test_the_recovery_buffer_is_its_formula(found):
    memory = found["methods"][TAP]["memory"]
    assert memory["recovery_buffer"] == memory["recovery_formula"] > 0
    assert memory["peak_gb"] == (memory["weights"] + memory["activations"]) / 1e9


def test_every_component_is_seen(found):
    assert set(found["components"]["ms"]) == set(COMPONENTS)
    assert all(spent > 0 for spent in found["components"]["ms"].values())


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("reads", [(), (2, 4)])
def test_operations_from_counts_are_those_that_torch_sees(rate, reads):
    encoder = tiny_encoder(TAP, rate, (1, 2, 3), reads, grid=(10, 10), width=64)
    follow(encoder.reducer, PRINTED_SPLITS["seg"])
    images, ids = tiny_images(encoder, 4), torch.arange(4)
    seen, trace = of_encoder(encoder, images, ids)
    assert len({*trace.removals[:, 0].tolist()}) > 1, "counts spread over images"
    assert from_counts(encoder, trace) == pytest.approx(seen, rel=0.01)


def test_wrapping_leaves_the_encoder_as_it_was():
    encoder = tiny_encoder(TAP, 0.5, (2, 3), (4,))
    model = torch.nn.Module()
    model.encoder = encoder
    images = tiny_images(encoder, 2)
    before = {name: getattr(type(encoder), name) for name in ("forward",)}
    with torch.no_grad():
        expected = encoder(images).tokens.x
        components(model, lambda: encoder(images), CPU, 1)
        assert torch.equal(encoder(images).tokens.x, expected)
    assert before["forward"] is type(encoder).forward
    assert "forward" not in vars(encoder)
    assert not {"scores", "allocate", "_choose"} & set(vars(encoder.reducer))


def test_a_stretch_has_the_time_without_those_inside(monkeypatch):
    clock = iter([0.0, 1.0, 4.0, 9.0])
    watch = Stopwatch(CPU)
    monkeypatch.setattr(watch, "_now", lambda: next(clock))
    with watch.stretch("outer"), watch.stretch("inner"):
        pass
    assert watch.seconds() == {"outer": 6.0, "inner": 3.0}
    assert watch.seconds() == {}


def test_too_little_memory_halves_the_batch(monkeypatch, capsys):
    tried = []

    def measured(key, how, names, device):
        tried.append(how.batch)
        if how.batch > 2:
            raise torch.OutOfMemoryError
        return {"methods": {}}

    monkeypatch.setattr(profiling, "profile", measured)
    result = profiling._fitting(KEY, replace(protocol(KEY), batch=8), [DENSE], CPU)
    assert (tried, result["batch"], result["wanted_batch"]) == ([8, 4, 2], 2, 8)
    assert "2 images instead" in capsys.readouterr().err


def test_an_image_that_does_not_fit_is_said(monkeypatch):
    def measured(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(profiling, "profile", measured)
    with pytest.raises(UserError, match="one image does not fit into the memory of cpu-some-1t"):
        profiling._fitting(KEY, protocol(KEY), [DENSE], CPU)


def test_an_unknown_method_is_refused():
    with pytest.raises(UserError, match="method: 'nothing' is not profiled for seg; choose from dense, random"):
        profiling.profile_task(KEY, methods=["nothing"])


def test_machines_have_names_of_their_own(monkeypatch):
    monkeypatch.setattr(profiles, "gpu_facts", lambda *_: ["NVIDIA RTX PRO 4000 (x)"])
    assert device_key("cuda") == device_key("auto") == "gpu-nvidia-rtx-pro-4000-x"
    assert device_key("cpu", 2).startswith("cpu-")
    monkeypatch.setattr(profiles, "gpu_facts", lambda *_: [])
    assert device_key("auto", 2) == device_key("cpu", 2) != device_key("cpu", 1)
    with pytest.raises(UserError, match="'cuda' asks for a GPU and the driver"):
        device_key("cuda")


@pytest.mark.parametrize(("task", "side", "patches"), [("cls", 224, 196), ("seg", 512, 1024), ("det", 1024, 4096)])
def test_images_have_the_papers_size(task, side, patches):
    """Not the size of the pre-training, whose positions a trunk of another size takes over."""
    images, count = profiled_images(ProfileKey("gpu-some", "paper", task), 1)
    assert (tuple(images.shape), count) == ((1, 3, side, side), patches)


def test_the_protocol_is_the_papers_on_a_gpu():
    for task, batch in (("cls", 128), ("seg", 8), ("det", 1)):
        how = protocol(ProfileKey("gpu-some", "paper", task))
        assert (how.batch, how.dtype, how.warmup, how.iterations, how.memory_iterations) == (
            batch,
            "bf16",
            100,
            500,
            50,
        )
        assert how.rounds >= 5
        assert how.full is None
        assert protocol(ProfileKey("cpu-some-2t", "paper", task)).dtype == "fp32"


def test_a_profile_depends_on_no_training():
    told = parameters(ProfileKey("cpu-some-2t", "paper", "det"))
    assert set(told) == {"device", "shapes", "model", "rate", "subjects", "protocol", "split", "task"}
    assert subjects("paper", "det")[0] == DENSE
    assert {"tap@0.30", "tap_f@0.70"} <= {*subjects("paper", "det")}


def test_a_trained_checkpoint_gives_its_own_split(tmp_path):
    assert trained_split("smoke", "seg", tmp_path) is None
    file = tmp_path / "results/smoke/runs/seg/tap/r0.50/main/s0/controls.npz"
    file.parent.mkdir(parents=True)
    np.savez(file, shares=np.array([[0.2, 0.3, 0.5], [0.4, 0.3, 0.3]]))
    path, split = trained_split("smoke", "seg", tmp_path)
    assert path == file
    assert split == (pytest.approx((30, 10)), pytest.approx((30, 0)), pytest.approx((40, 10)))
