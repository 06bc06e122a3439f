"""TAP beyond what the reference covers: parameters, training noise, temperature, the register's task."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny_encoder, tiny_images

from tap.core.accounting import controller_parameters
from tap.errors import UserError
from tap.reducers.base import ReducerSettings
from tap.reducers.registry import get


def tap(**settings):
    return get("tap")(ReducerSettings(**{"width": 768, "depth": 12} | settings))


def test_parameters_of_the_paper():
    reducer = tap()
    assert reducer.added_parameters() == controller_parameters(768) == 2306
    assert sum(p.numel() for name, p in reducer.named_parameters() if "recovery" not in name) == 1537


def test_initial_values():
    torch.manual_seed(0)
    reducer = tap(allocation_bias=-0.5, recovery_bias=0.25, register_std=0.1)
    controller = reducer.controller
    register = torch.randn(5, 768)
    torch.testing.assert_close(controller.share_logit(register), torch.full((5,), -0.5))
    torch.testing.assert_close(controller.recovery_scale(register), torch.full((5,), 0.25).sigmoid())
    assert controller.registers["cls"].std().item() == pytest.approx(0.1, rel=0.1)


def test_the_default_first_share_is_a_third():
    """sigmoid(-0.693147) = 1/3: 32.67 of 98 patches, rounded to 33, then 22 of 65, then the rest."""
    encoder = tiny_encoder("tap", 0.5, (1, 2, 3), grid=(14, 14))
    controller = encoder.reducer.controller
    with torch.no_grad():
        controller.allocation.weight.zero_()
        controller.allocation.bias.fill_(-0.693147)
        trace = encoder(tiny_images(encoder, 1), return_trace=True).trace
    assert trace.removals.tolist() == [[33, 22, 43]]


def test_temperature_follows_the_training():
    reducer = tap(tau_start=2.0, tau_end=0.5)
    seen = []
    for progress in (0.0, 0.5, 1.0):
        reducer.set_progress(progress)
        seen.append(reducer.temperature)
    assert seen == pytest.approx([2.0, 1.25, 0.5])
    assert tap(tau_start=2.0).temperature == 2.0


def kept_sets(encoder, images, seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        return encoder(images, return_trace=True).trace.kept[2]


def test_gumbel_noise_is_for_training_only():
    encoder = tiny_encoder("tap", 0.5, (2,), grid=(5, 5))
    images = tiny_images(encoder)
    assert torch.equal(kept_sets(encoder, images, 0), kept_sets(encoder, images, 1))
    encoder.train()
    assert torch.equal(kept_sets(encoder, images, 0), kept_sets(encoder, images, 0))
    assert not torch.equal(kept_sets(encoder, images, 0), kept_sets(encoder, images, 1))
    quiet = tiny_encoder("tap", 0.5, (2,), grid=(5, 5), settings={"gumbel": False})
    expected = kept_sets(quiet, images, 0)
    assert torch.equal(kept_sets(quiet.train(), images, 1), expected)


def test_the_noise_has_the_scores_distribution():
    """Gumbel perturbation picks patch i first with probability softmax(f)_i."""
    encoder = tiny_encoder("tap", 0.01, (1,), grid=(1, 3)).double()
    scores = []
    original = encoder.reducer.scores
    encoder.reducer.scores = lambda *args: scores.append(original(*args)) or scores[-1]
    image = tiny_images(encoder, 1).expand(4000, -1, -1, -1)
    encoder.train()
    torch.manual_seed(0)
    with torch.no_grad():
        kept = encoder(image, return_trace=True).trace.kept[1]
    torch.testing.assert_close(kept.float().mean(dim=0), scores[0][0].softmax(dim=0), rtol=0, atol=0.03)


def test_training_values_are_those_of_the_hard_selection():
    """The straight-through mask changes gradients, no value."""
    encoder = tiny_encoder("tap", 0.4, (2, 3, 4), (4,), grid=(4, 5), seed=9, settings={"gumbel": False})
    images = tiny_images(encoder)
    with torch.no_grad():
        evaluated = encoder(images)
        trained = encoder.train()(images)
    torch.testing.assert_close(trained.grids[0], evaluated.grids[0], rtol=0, atol=1e-6)


def test_removed_patches_get_gradients_through_the_threshold():
    """A removed patch's score moves the mask of the retained ones, also for classification."""
    encoder = tiny_encoder("tap", 0.3, (2,), grid=(4, 4), settings={"gumbel": False}).double().train()
    images = tiny_images(encoder, 1).requires_grad_()
    output = encoder(images, return_trace=True)
    kept = output.trace.kept[2][0]
    rows = output.tokens.x[output.tokens.layout.patch_rows]
    rows.square().sum().backward()
    assert (~kept).sum() == 11
    # Patches meet in block 1 anyway, so look at the scores' share: without the surrogate the readout gets nothing.
    assert encoder.reducer.controller.registers["cls"].grad.any()


def test_the_active_task_has_the_register():
    assert list(tap(task="seg").controller.registers) == ["seg"]
    encoder = tiny_encoder("tap", settings={"task": "det"})
    with torch.no_grad():
        assert encoder(tiny_images(encoder)).tokens.layout.prefix == 2
    encoder.reducer.settings = ReducerSettings(16, 4, layers=(2, 3), task="cls")
    with pytest.raises(UserError, match="'cls' has no register"):
        encoder(tiny_images(encoder))


def test_a_given_schedule_needs_one_share_per_block():
    with pytest.raises(UserError, match="2 shares for 3 pruning blocks"):
        tap(schedule=(50.0, 50.0))
