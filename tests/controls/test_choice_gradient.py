"""The gradient that a choice is judged by, against finite differences of the loss under a mask that really moves.

Forward, the straight-through mask is the hard one, so the loss itself has no slope. Its surrogate has: the hard
decisions as they are plus how far the soft probabilities have moved (Eqs. 4-5), these by a bisection in float64 that
shares nothing with the encoder's. The scores of a group are pushed up and down, and the whole pass runs again.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from grid_tasks import IDS, CubicGrid
from tiny_models import tiny_encoder, tiny_images

from tap.controls.choice import judge_choice
from tap.controls.leave_out import patch_groups
from tap.controls.listening import listening
from tap.reducers import tap as method
from tap.tasks.base import Batch

LAYERS, GRID = (2, 3), (4, 5)
STEP = 2e-2
"""Scores are float32: a smaller push would be lost in their digits."""


def soft_keep(scores, target, tau, valid=None):
    """Eq. 4 by a plain bisection for each image, in float64."""
    found = torch.zeros(scores.shape, dtype=torch.float64)
    for row, (values, count) in enumerate(zip(scores.double(), target.double(), strict=True)):
        real = torch.ones_like(values, dtype=torch.bool) if valid is None else valid[row]
        low, high = float(values[real].min()) - 60 * tau, float(values[real].max()) + 60 * tau
        for _ in range(200):
            middle = (low + high) / 2
            enough = torch.sigmoid((values[real] - middle) / tau).sum() > int(real.sum()) - count
            low, high = (middle, high) if enough else (low, middle)
        found[row, real] = torch.sigmoid((values[real] - low) / tau)
    return found


@pytest.mark.parametrize("selection", ["register", "attention"])
def test_it_is_the_slope_of_the_loss_under_the_soft_mask(selection, monkeypatch):
    encoder = tiny_encoder("tap", 0.4, LAYERS, (4,), grid=GRID, settings={"selection": selection}).double()
    images, model, task = tiny_images(encoder, 2), torch.nn.Module(), CubicGrid()
    model.encoder = encoder
    found = judge_choice(task, model, SimpleNamespace(seed=0), images, torch.device("cpu"), 2).says["gradient"]

    reducer, first = encoder.reducer, encoder.vit.blocks[LAYERS[0] - 1]
    start, moves, push = [], [], torch.zeros(2, GRID[0] * GRID[1])

    def surrogate(hard, soft):
        """The hard mask, and how far the soft one has moved from where it was without a push."""
        moves.append(soft)
        return hard.double() + soft - start[len(moves) - 1] if start else hard.double()

    monkeypatch.setattr(method, "soft_keep", soft_keep)
    monkeypatch.setattr(method, "straight_through", surrogate)
    reducer.settings = replace(reducer.settings, gumbel=False)
    reducer.temperature, reducer.training = reducer.settings.tau_start, True

    def pushed(block, tokens, hidden, keys, scores):
        return scores + push if block is first else scores

    def losses():
        moves.clear()
        with listening(reducer, pushed), torch.no_grad():
            return task.image_losses(model, None, Batch(images, None, IDS))

    losses()
    start += moves
    assert len(start) == len(LAYERS)
    groups, wanted = patch_groups(GRID, 2), np.empty((2, 4))
    for group in range(4):
        ends = []
        for sign in (1, -1):
            push.copy_(torch.from_numpy(sign * STEP * (groups == group)))
            ends.append(losses())
        wanted[:, group] = -(ends[0] - ends[1]) / (2 * STEP * (groups == group).sum())
    assert np.abs(wanted).min() > 0
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-3 * np.abs(wanted).max())
