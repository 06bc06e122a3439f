"""The threshold that brings the mean count to K."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from toy_task import SmallClassification, ToyData, toy_spec

from tap.config.model import ModelConfig
from tap.config.options import MethodOptions
from tap.config.options.svit import SvitOptions
from tap.engine.calibration import MISS, STEPS, TOLERANCE, calibrate, find_threshold
from tap.errors import UserError
from tap.tasks.base import Splits

CPU = torch.device("cpu")


class Calibration(SmallClassification):
    """More images to calibrate on, or none."""

    def __init__(self, images: int = 60) -> None:
        self.images = images

    def datasets(self, spec):
        return Splits(ToyData(), ToyData(self.images, train=False), ToyData(9, train=False))


def spec_of(method: str = "svit", rate: float = 0.5, **data: object):
    options = MethodOptions(svit=SvitOptions(layers=(1, 2))).only(method)
    base = toy_spec(method)
    sizes = ModelConfig(image_size=8, patch_size=2, channels=1, width=12, depth=2, heads=2)
    changes = {"options": options, "rate": rate, "model": sizes, "data": base.data.model_copy(update=data)}
    return base.model_copy(update=changes)


def model_of(spec):
    """Gates whose answers differ from patch to patch."""
    model = Calibration().build_model(spec)
    for gate in getattr(model.encoder.reducer, "gates", ()):
        nn.init.normal_(gate.mlp.fc1.weight, std=1.0, generator=torch.Generator().manual_seed(1))
        nn.init.normal_(gate.mlp.fc2.weight, std=1.0, generator=torch.Generator().manual_seed(2))
    return model


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.75])
def test_the_mean_count_of_the_calibration_split_is_k(rate):
    spec = spec_of(rate=rate)
    model, task = model_of(spec), Calibration()
    facts = calibrate(spec, task, model, CPU)
    assert facts["calibrated_to"] == 16 * rate
    assert facts["calibration_images"] == 60
    assert facts["calibrated_mean_count"] == pytest.approx(16 * rate, rel=0.05)
    assert float(model.encoder.reducer.threshold) == pytest.approx(facts["calibrated_threshold"])
    images = torch.stack([sample.image for sample in (task.datasets(spec).calibration[i] for i in range(60))])
    with torch.inference_mode():
        counts = model.eval().encoder(images).final_counts
    assert sum(counts) / 60 == pytest.approx(facts["calibrated_mean_count"])
    assert len(set(counts)) > 1, "images keep counts of their own"


def test_the_same_weights_give_the_same_threshold_in_batches_of_any_size():
    spec = spec_of()
    one = calibrate(spec, Calibration(), model_of(spec), CPU)
    torch.manual_seed(5)
    other = spec.model_copy(update={"eval": spec.eval.model_copy(update={"batch_size": 7})})
    assert calibrate(other, Calibration(), model_of(spec), CPU) == one


def test_a_limit_takes_fewer_images_and_the_mode_stays():
    spec = spec_of(limit_calibration=11)
    model = model_of(spec).train()
    assert calibrate(spec, Calibration(), model, CPU)["calibration_images"] == 11
    assert model.training


def test_nothing_is_done_where_nothing_is_to_be_calibrated():
    spec = spec_of()
    assert calibrate(spec, Calibration(), model_of(spec), CPU, first=True) == {}, "SViT's gates are random before"
    assert calibrate(spec_of(rate=1.0), Calibration(), model_of(spec), CPU) == {}
    dense = spec_of("dense", 1.0)
    assert calibrate(dense, Calibration(), model_of(dense), CPU) == {}


def test_an_empty_split_is_refused():
    spec = spec_of()
    with pytest.raises(UserError, match=r"the calibration split has no image, and svit needs one .*data\.calibration"):
        calibrate(spec, Calibration(0), model_of(spec), CPU)


@pytest.mark.parametrize("wanted", [0.0, 3.7, 10.0])
def test_a_rising_count_is_bisected(wanted):
    """On a straight line, with the tolerance of a share of K; and on steps, where the nearest is taken."""
    threshold, mean, _ = find_threshold(lambda value: (10 * value, wanted), 0.0, 1.0)
    assert mean == pytest.approx(10 * threshold)
    assert abs(mean - wanted) <= max(TOLERANCE * wanted, 1e-5)
    steps = find_threshold(lambda value: (float(int(10 * value)), wanted), 0.0, 1.0)
    assert abs(steps[1] - wanted) <= 1.0


def bumped(value: float) -> float:
    """Jumps over 5 at the first crossing that a bisection of [0, 1] meets, and reaches it elsewhere."""
    return 10 * value if value < 0.2 else (2.0 if value < 0.6 else 8.0) if value < 0.9 else 80 * (value - 0.9)


def test_a_miss_is_searched_on_until_the_count_is_near():
    tried = []

    def count(value):
        tried.append(value)
        return bumped(value), 5.0

    _, mean, wanted = find_threshold(count, 0.0, 1.0)
    assert abs(mean - wanted) <= MISS * wanted
    assert len(tried) == len(set(tried)) > STEPS, "each threshold is tried once, and bisection alone is not enough"


def test_a_count_that_jumps_over_k_ends_with_the_nearest_one():
    tried = []

    def count(value):
        tried.append(value)
        return (3.0 if value < 0.3 else 9.0), 5.0

    threshold, mean, _ = find_threshold(count, 0.0, 1.0)
    assert (threshold < 0.3, mean) == (True, 3.0)
    assert len(tried) < 200


@pytest.mark.slow
def test_what_cannot_be_reached_is_said(capsys):
    """Gates that answer alike for every patch: all of them stay or one."""
    spec = spec_of()
    model = Calibration().build_model(spec)
    for gate in model.encoder.reducer.gates:
        for parameter in gate.parameters():
            nn.init.zeros_(parameter)
    facts = calibrate(spec, Calibration(), model, CPU)
    assert abs(facts["calibrated_mean_count"] - 8.0) > MISS * 8.0
    said = capsys.readouterr().err
    assert "cls/svit/r0.50/main/s0: no threshold leaves a mean of 8.0 patches on the calibration split" in said
    calibrate(spec, Calibration(), model_of(spec), CPU)
    assert not capsys.readouterr().err


@pytest.mark.slow
def test_counts_are_those_of_what_the_encoder_sees():
    """A task that evaluates in windows: K is a share of a window's patches, an image's count the mean over windows."""

    class Windows(Calibration):
        def encoder_inputs(self, spec, images):
            return [images, images.flip(-1), images.flip(-2)]

    spec = spec_of()
    model = model_of(spec)
    facts = calibrate(spec, Windows(), model, CPU)
    images = torch.stack([sample.image for sample in (Windows().datasets(spec).calibration[i] for i in range(60))])
    with torch.inference_mode():
        passes = [model.eval().encoder(part).final_counts for part in Windows().encoder_inputs(spec, images)]
    assert len(set(passes)) > 1
    assert sum(map(sum, passes)) / 180 == pytest.approx(facts["calibrated_mean_count"])
