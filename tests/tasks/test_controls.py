"""Controls, oracle and losses of single images on the real pipelines, against evaluations that share nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tap.controls.evaluation import evaluate_controls, images_of, register_outputs
from tap.controls.oracle import search_splits
from tap.controls.policies import Control, Means, matching_controls, mean_controls, recovery_controls, static_controls
from tap.errors import UserError
from tap.reducers.base import IGNORE
from tap.tasks.registry import get_task

CPU = torch.device("cpu")
ALONE = ("full", "late_heavy", "zero_fill", "alpha_0", "matching_random_1", "matching_direct_learned")
"""Controls that are compared with an evaluation of their own."""


@pytest.fixture
def trained(cls_spec, seg_spec, det_spec):
    """Task, model and settings of a TAP checkpoint whose readouts are far from their start."""

    def make(name):
        spec = {
            "cls": lambda: cls_spec(),
            "seg": lambda: seg_spec(model={"read_blocks": (3, 6, 9, 12), "head_channels": 8}),
            "det": det_spec,
        }[name]()
        spec = spec.model_copy(update={"method": "tap", "rate": 0.5, "static_split": (26.8, 33.4, 39.8)})
        task = get_task(spec)
        model = task.build_model(spec)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.encoder.reducer.parameters():
                parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
        return task, model, spec

    return make


@pytest.mark.parametrize("name", ["cls", "seg", pytest.param("det", marks=pytest.mark.slow)])
def test_controls_are_the_evaluations_of_their_settings_and_hold_the_rest_fixed(trained, name):
    task, model, spec = trained(name)
    dense = task.facts.dense
    controls = [Control("full"), *static_controls((26.8, 33.4, 39.8)), *mean_controls(Means((0.2, 0.3, 0.5)))]
    controls += [*recovery_controls(), *matching_controls()] if dense else []
    found, (run, alone) = evaluate_controls(task, model, spec, controls, images_of(task, spec, "validation"), CPU)
    own = model.encoder
    for control in [one for one in controls if one.name in ALONE]:
        reducer, before = own.reducer, (own.reducer.settings, own.recovery)
        reducer.settings = replace(reducer.settings, schedule=control.schedule)
        scale = control.scale if isinstance(control.scale, float) else "learned"
        own.recovery = replace(own.recovery, scale=scale, matching=control.matching, zero_fill=control.scale == "off")
        wanted = task.evaluate(model, spec, "validation", CPU).metrics
        reducer.settings, own.recovery = before
        scores = task.score(spec, found[control.name].per_image)
        assert scores == pytest.approx({name: wanted[name] for name in scores}), control.name
        assert found[control.name].exact == len(found[control.name].budget)
    same = {found[control.name].digest for control in controls if control.schedule is None}
    assert len(same) == 1
    assert found["late_heavy"].digest not in same
    assert run < alone


@pytest.mark.parametrize("name", ["cls", "seg", "det"])
def test_oracle_chooses_by_the_losses_of_single_passes(trained, name):
    task, model, spec = trained(name)
    images = images_of(task, spec, "calibration", 2)
    found = search_splits(task, model, spec, images, CPU, step=50)
    assert found.splits.tolist() == [[0, 0, 100], [0, 50, 50], [0, 100, 0], [50, 0, 50], [50, 50, 0], [100, 0, 0]]
    reducer, settings = model.encoder.reducer, model.encoder.reducer.settings
    with torch.inference_mode():
        for column, split in enumerate(found.splits.tolist()):
            reducer.settings = replace(settings, schedule=tuple(map(float, split)))
            alone = [task.image_losses(model, spec, batch) for batch in task.loader(images, spec)]
            np.testing.assert_allclose(found.losses[:, column], np.concatenate(alone))
    reducer.settings = settings
    assert np.isfinite(found.losses).all()


def test_a_pixel_loss_is_the_mean_over_labelled_pixels_and_zero_without_any(trained):
    task, model, spec = trained("seg")
    batch = next(iter(task.loader(images_of(task, spec, "validation"), spec)))
    emptied = replace(batch.targets[0], labels=torch.full_like(batch.targets[0].labels, IGNORE))
    model.eval()
    with torch.inference_mode():
        losses = task.image_losses(model, spec, batch)
        without = task.image_losses(model, spec, batch._replace(targets=[emptied, *batch.targets[1:]]))
    assert without[0] == 0.0
    assert without[1] == losses[1] > 0


def test_an_image_without_objects_has_a_loss_and_equal_draws_give_equal_losses(trained):
    task, model, spec = trained("det")
    batch = next(iter(task.loader(images_of(task, spec, "validation"), spec)))
    assert not batch.targets[-1].objects
    model.eval()
    heads = model.roi_head.mask_head
    with torch.inference_mode():
        losses = task.image_losses(model, spec, batch)
        torch.manual_seed(5)
        again = task.image_losses(model, spec, batch)
    assert np.isfinite(losses).all()
    assert losses.tolist() == again.tolist()
    assert model.roi_head.mask_head is heads


def test_register_outputs_are_those_of_the_traces(trained):
    task, model, spec = trained("det")
    found = register_outputs(task, model, spec, images_of(task, spec, "validation"), CPU)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    assert found.scales.shape == found.shares.shape == (3, 3)
    assert found.means.shares == pytest.approx(found.shares.mean(axis=0))
    # Windowed blocks come before block 3: the register has seen no patch yet.
    assert len(np.unique(found.shares[:, 0])) == 1


def test_a_calibration_split_that_is_too_small_says_so(trained):
    task, _, spec = trained("seg")
    with pytest.raises(UserError, match="3 images of the calibration split of seg are asked for, and it has 2"):
        images_of(task, spec, "calibration", 3)
