"""Formulas of operations of studies beside torch's counter on the studies themselves."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tap.config.measuring import ControlConfig, ProbeConfig
from tap.config.methods import CRITERIA
from tap.controls.policies import (
    Control,
    Means,
    matching_controls,
    mean_controls,
    recovery_controls,
    static_controls,
)
from tap.criteria.registry import get
from tap.plan import study_flops
from tap.studies import controls, probes, register_diagnostics
from tap.studies.probe_encoder import Probe
from tap.tasks.registry import get_task

CPU = torch.device("cpu")
SPLIT = (26.8, 33.4, 39.8)


@pytest.fixture
def model_of(cls_spec):
    """A task, a model of a method with random weights, and its settings."""

    def make(method, rate):
        spec = cls_spec().model_copy(update={"method": method, "rate": rate, "static_split": SPLIT})
        task = get_task(spec)
        torch.manual_seed(0)
        return task, task.build_model(spec).eval(), spec

    return make


def counted(call):
    # The fused kernel of a CPU is not counted, so attention is taken apart.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        found = call()
    return counter.get_total_flops(), found


@pytest.mark.parametrize("kind", ["layers", "recovery"])
def test_probes_of_a_checkpoint(model_of, kind):
    task, model, spec = model_of("dense", 1.0)
    settings = ProbeConfig(keep_rate=0.5, images=4, layers=(2, 7))
    asked = [Probe(layer, get(name)) for layer in settings.layers for name in CRITERIA]
    if kind == "recovery":
        asked = [Probe(layer, get("coverage"), alpha) for layer in settings.layers for alpha in (1.0, 0.0)]
    found, _ = counted(lambda: probes.measure(task, model, spec, asked, settings, CPU))
    assert study_flops.probe_flops(spec, kind, settings) == pytest.approx(found / 4, rel=0.1)


@pytest.mark.slow
def test_controls_of_a_checkpoint(model_of):
    task, model, spec = model_of("tap", 0.5)
    settings = ControlConfig(images=2, calibration_images=4, oracle_images=2, oracle_step=25, choice_images=1)
    everything = task.datasets(spec)
    found, (table, _) = counted(lambda: controls.measure(task, model, spec, settings, CPU))
    images = len(everything.calibration), len(everything.validation)
    assert study_flops.control_flops(spec, settings, *images) == pytest.approx(found, rel=0.15)
    assert table["control"].nunique() == study_flops.READINGS[False]


def test_diagnostics_of_a_register(model_of):
    task, model, spec = model_of("tap", 0.5)
    spec = spec.model_copy(update={"eval": spec.eval.model_copy(update={"register_images": 4})})
    start = torch.ones(spec.model.width)
    found, _ = counted(lambda: register_diagnostics.register_metrics(task, model, spec, CPU, start, {"seg": start}))
    assert study_flops.diagnostics_flops(spec, 1) == pytest.approx(found / 4, rel=0.1)
    assert study_flops.diagnostics_flops(spec.model_copy(update={"method": "evit"}), 0) == 0


def test_controls_are_as_many_as_there_are():
    means = Means((0.2, 0.3, 0.5), (0.1, 0.2, 0.3))
    fixed = [*static_controls(SPLIT), *mean_controls(means), *mean_controls(Means((0.3, 0.3, 0.4), (0.1, 0.1, 0.1)))]
    every = [Control("full"), Control("oracle", SPLIT[::-1]), *fixed, *recovery_controls(), *matching_controls()]
    assert len(every) == study_flops.READINGS[True]
    assert len({control.schedule for control in every}) == study_flops.SCHEDULES
