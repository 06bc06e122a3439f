"""Groups of patches left out: against encoders that are given fewer patches by hand, and the gradient of the mask."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from grid_tasks import IDS, CubicGrid
from tiny_models import tiny_encoder, tiny_images

from tap.controls.choice import judge_choice
from tap.controls.leave_out import LeaveOutEncoder, group_means, patch_groups
from tap.encoder.blocks import run_block
from tap.errors import UserError
from tap.tasks.base import Batch

LAYERS, GRID = (2, 3), (4, 5)


def test_fields_cover_the_grid_and_are_as_equal_as_they_can_be():
    groups = patch_groups(GRID, 2)
    assert groups.reshape(GRID).tolist() == [[0, 0, 0, 1, 1]] * 2 + [[2, 2, 2, 3, 3]] * 2
    values = np.arange(20.0)[None]
    np.testing.assert_allclose(group_means(values, groups)[0], [values[0, groups == g].mean() for g in range(4)])
    with pytest.raises(UserError, match="choice_side: 5 fields in a row do not fit"):
        patch_groups(GRID, 5)


def test_without_a_group_the_pass_is_one_on_the_other_patches():
    """No grid is read, so that the rows of the last block are those of the same blocks on fewer rows."""
    encoder = tiny_encoder("tap", 0.5, LAYERS, (), grid=GRID).double()
    images, left_out = tiny_images(encoder, 2), LeaveOutEncoder(encoder, 2)
    with torch.inference_mode():
        left_out.new_batch()
        whole = left_out(images, IDS).tokens
        tokens, _ = encoder.begin(images, IDS)
        for block in encoder.vit.blocks:
            tokens = run_block(block, tokens)
        torch.testing.assert_close(whole.x, tokens.x, rtol=0, atol=0)
        left_out.rewind(3)
        found = left_out(images, IDS).tokens
        keep = torch.from_numpy(patch_groups(GRID, 2) != 3)
        tokens, _ = encoder.begin(images, IDS)
        tokens = run_block(encoder.vit.blocks[0], tokens)
        x = tokens.rectangle[:, torch.cat([torch.ones(2, dtype=torch.bool), keep])]  # class token and register stay
        for block in encoder.vit.blocks[1:]:
            x = block(x)
    torch.testing.assert_close(found.rectangle, x, rtol=1e-9, atol=1e-9)
    assert set(found.index[0].tolist()) == set(np.flatnonzero(keep.numpy()))


def test_the_choice_is_judged_by_the_losses_and_leaves_the_model_as_it_was():
    encoder = tiny_encoder("tap", 0.5, LAYERS, (4,), grid=GRID)
    images = tiny_images(encoder, 2)
    model = torch.nn.Module()
    model.encoder = encoder
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.inference_mode():
        wanted = encoder(images, IDS).grids[0]
    found = judge_choice(CubicGrid(), model, SimpleNamespace(seed=0), images, torch.device("cpu"), 2)
    assert model.encoder is encoder
    assert not encoder.reducer.training
    assert encoder.reducer.settings.gumbel
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
    with torch.inference_mode():
        torch.testing.assert_close(encoder(images, IDS).grids[0], wanted, rtol=0, atol=0)
    assert found.worth.shape == (2, 4)
    assert {name: values.shape for name, values in found.says.items()} == dict.fromkeys(found.says, (2, 4))
    left_out = LeaveOutEncoder(encoder, 2)
    left_out.new_batch()
    model.encoder = left_out
    with torch.inference_mode():
        full = CubicGrid().image_losses(model, None, Batch(images, None, IDS))
        left_out.rewind(1)
        without = CubicGrid().image_losses(model, None, Batch(images, None, IDS))
    np.testing.assert_allclose(found.worth[:, 1], without - full)
    assert np.abs(found.says["gradient"]).max() > 0


def test_a_method_without_a_register_chooses_nothing():
    with pytest.raises(UserError, match="has no register"):
        LeaveOutEncoder(tiny_encoder("random", 0.5), 2)
