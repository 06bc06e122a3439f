"""The controlled encoder against plain passes with the same settings, and what it shares and holds fixed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import Rules, forward
from tiny_models import tiny_encoder, tiny_images

from tap.controls.encoder import ControlledEncoder
from tap.controls.policies import (
    ENDPOINTS,
    Control,
    Means,
    matching_controls,
    mean_controls,
    recovery_controls,
    static_controls,
)
from tap.core.budget import split_by_shares
from tap.encoder.recovery_buffer import RecoverySettings
from tap.errors import UserError

GRID, LAYERS, DEPTH = (4, 5), (2, 3, 4), 5
IDS = torch.tensor([7, 4, 11])
ALL = [
    Control("full"),
    *recovery_controls(),
    *matching_controls(),
    *static_controls((26.8, 33.4, 39.8)),
    *mean_controls(Means((0.2, 0.3, 0.5), (0.9, 0.4, 0.1))),
]


def tap(reads=(1, 3, 5), **options):
    return tiny_encoder("tap", 0.5, LAYERS, reads, grid=GRID, depth=DEPTH, **options).double()


def plain(encoder, control, images):
    """The same control by a pass of its own, as far as the encoder's own settings can say it."""
    before = encoder.reducer.settings, encoder.recovery
    encoder.reducer.settings = replace(encoder.reducer.settings, schedule=control.schedule)
    scale = control.scale if isinstance(control.scale, float) else "learned"
    encoder.recovery = RecoverySettings(scale, control.matching, control.scale == "off", encoder.recovery.seed)
    try:
        return encoder(images, IDS, return_trace=True)
    finally:
        encoder.reducer.settings, encoder.recovery = before


def ask(controlled, control, images):
    controlled.rewind(control)
    return controlled(images, IDS, return_trace=True)


@pytest.mark.parametrize("order", [1, -1])
def test_every_control_is_a_plain_pass_with_its_settings(order):
    encoder = tap()
    images, controlled = tiny_images(encoder, 3), ControlledEncoder(encoder, ALL)
    with torch.inference_mode():
        for control in ALL[::order]:
            if isinstance(control.scale, tuple):
                continue
            found, wanted = ask(controlled, control, images), plain(encoder, control, images)
            torch.testing.assert_close(found.tokens.x, wanted.tokens.x, rtol=0, atol=0)
            assert len(found.grids) == len(wanted.grids) == 3
            for mine, theirs in zip(found.grids, wanted.grids, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=0, atol=0, msg=control.name)
            assert torch.equal(found.trace.removals, wanted.trace.removals)


def test_matching_rules_and_recovery_scales_are_those_of_loops_in_float64():
    """Every rule and every scale against the reference; the random rule takes the stand-ins that were drawn."""
    encoder = tap(reads=(3, 5), seed=5)
    controls = [*recovery_controls(), *(one for one in matching_controls() if one.scale == "learned")]
    image, controlled = tiny_images(encoder, 1), ControlledEncoder(encoder, controls)
    with torch.inference_mode():
        for control in controls:
            controlled.rewind(control)
            found = controlled(image, IDS[:1])
            rule = control.matching if control.matching != "random" else drawn_stand_ins(found.recovery)
            scale = control.scale if isinstance(control.scale, float) else None
            rules = Rules(0.5, LAYERS, (3, 5), scale, rule, zero_fill=control.scale == "off")
            wanted = forward(encoder.vit, encoder.reducer.controller, "cls", image[0], rules)
            assert wanted.margin > 1e-5, "a decision is too close to compare; choose another seed"
            for mine, theirs in zip(found.grids, wanted.grids, strict=True):
                torch.testing.assert_close(mine[0], theirs, rtol=1e-5, atol=1e-5, msg=control.name)


def drawn_stand_ins(buffer):
    """From pruning block and removed patch of the one image to the stand-in that was drawn for it."""
    known = {}
    for record in buffer.records:
        where = (buffer.removed_at[0] == record.layer).nonzero().flatten().tolist()
        known |= {(record.layer, patch): pointer for patch, pointer in zip(where, record.pointer.tolist(), strict=True)}
    return lambda layer, patch, kept: known[layer, patch]


def test_mean_scales_replace_those_of_the_register_layer_by_layer():
    """Against the definition, position by position: alpha of the removal layer times the stored offset."""
    encoder, means = tap(reads=(5,)), (0.9, 0.4, 0.1)
    controls = [Control("full"), Control("mean", scale=means), Control("zero", scale=0.0), Control("one", scale=1.0)]
    images, controlled = tiny_images(encoder, 3), ControlledEncoder(encoder, controls)
    with torch.inference_mode():
        stand_in, full = (ask(controlled, controls[place], images).grids[0] for place in (2, 3))
        mean = ask(controlled, controls[1], images).grids[0]
        removed_at = controlled.decisions[0].removed_at
    for image in range(3):
        for patch in range(20):
            layer = int(removed_at[image, patch])
            alpha = means[LAYERS.index(layer)] if layer else 0.0
            wanted = stand_in[image, patch] + alpha * (full[image, patch] - stand_in[image, patch])
            torch.testing.assert_close(mean[image, patch], wanted, rtol=0, atol=1e-6)


def test_matching_and_scale_change_no_selected_set():
    encoder = tap()
    images, controlled = tiny_images(encoder, 3), ControlledEncoder(encoder, ALL)
    with torch.inference_mode():
        wanted = plain(encoder, ALL[0], images).recovery.removed_at
        grids = {}
        for control in [*recovery_controls(), *matching_controls()]:
            found = ask(controlled, control, images)
            assert torch.equal(controlled.decisions[0].removed_at, wanted)
            grids[control.name] = found.grids[-1]
    assert len(ENDPOINTS) * 6 == len(matching_controls())
    assert not torch.equal(grids["matching_key_1"], grids["matching_random_1"])


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 20)] * 3).filter(any), min_size=1, max_size=6))
def test_schedules_in_any_order_meet_the_budget_and_equal_plain_passes(drawn):
    encoder = tap()
    controls = [Control(f"c{number}", tuple(map(float, shares))) for number, shares in enumerate(drawn)]
    images, controlled = tiny_images(encoder, 3), ControlledEncoder(encoder, controls)
    with torch.inference_mode():
        for control in controls:
            found = ask(controlled, control, images)
            (decided,) = controlled.decisions
            assert decided.removals.tolist() == [split_by_shares(control.schedule, 10)] * 3
            assert (decided.removals.sum(dim=1) == decided.budget).all()
            assert torch.equal(found.grids[-1], plain(encoder, control, images).grids[-1])


def test_what_controls_have_in_common_runs_once():
    encoder = tap()
    images, controlled = tiny_images(encoder, 3), ControlledEncoder(encoder, ALL)
    same_pass = [control for control in ALL if control.schedule is None]
    with torch.inference_mode():
        for control in same_pass:
            ask(controlled, control, images)
    assert controlled.blocks_run == DEPTH
    assert controlled.blocks_alone == DEPTH * len(same_pass)


def test_several_calls_for_one_prediction_are_told_apart():
    encoder = tap()
    windows = tiny_images(encoder, 3), tiny_images(encoder, 3).flip(-1)
    controlled = ControlledEncoder(encoder, ALL)
    with torch.inference_mode():
        for control in (ALL[0], ALL[-1], ALL[4]):
            controlled.rewind(control)
            found = [controlled(images, IDS) for images in windows]
            assert len(controlled.decisions) == 2
            if not isinstance(control.scale, tuple):
                for images, output in zip(windows, found, strict=True):
                    assert torch.equal(output.grids[-1], plain(encoder, control, images).grids[-1])


def test_a_classifier_has_allocations_and_no_records():
    encoder = tap(reads=())
    controls = [Control("full"), *static_controls((1.0, 1.0, 2.0)), *mean_controls(Means((0.2, 0.3, 0.5)))]
    images, controlled = tiny_images(encoder, 3), ControlledEncoder(encoder, controls)
    with torch.inference_mode():
        for control in controls:
            found = ask(controlled, control, images)
            assert torch.equal(found.tokens.x, plain(encoder, control, images).tokens.x)
            (decided,) = controlled.decisions
            for number, layer in enumerate(LAYERS):
                assert torch.equal((decided.removed_at == layer).sum(dim=1), decided.removals[:, number])


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        (lambda: tiny_encoder("dense", 1.0), "has no register"),
        (lambda: tiny_encoder("random", 0.5), "has no register"),
        (lambda: tiny_encoder("tap", 1.0), "nothing to control"),
        (lambda: tiny_encoder("tap", 0.5, settings={"estimator": "independent"}), "independent gates"),
        (lambda: tiny_encoder("tap", 0.5, reads=(4,), recovery=RecoverySettings(1.0)), "is a control already"),
    ],
)
def test_a_checkpoint_that_cannot_be_controlled_says_why(encoder, words):
    with pytest.raises(UserError, match=words):
        ControlledEncoder(encoder(), ALL)


def test_a_schedule_needs_a_share_for_each_block():
    short = Control("short", (1.0, 2.0))
    controlled = ControlledEncoder(tap(), [short])
    with pytest.raises(UserError, match="2 numbers for 3 pruning blocks"):
        controlled.rewind(short)
