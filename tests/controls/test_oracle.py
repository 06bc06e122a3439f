"""The calibration-grid oracle against a search that shares nothing, one image and one split at a time, in float64."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_encoder, tiny_images

from tap.controls.oracle import grid_splits, search_splits
from tap.errors import UserError
from tap.tasks.base import Batch

LAYERS, GRID = (2, 3, 4), (4, 5)


class GridMean:
    """A task whose loss is a made-up function of the last grid (or of the class token)."""

    def __init__(self, batches):
        self.batches = batches

    def loader(self, dataset, spec):
        return self.batches

    def image_losses(self, model, spec, batch):
        output = model.encoder(batch.images, batch.sample_ids)
        return output.grids[0].pow(3).mean(dim=(1, 2)).numpy()


def model_of(encoder):
    return SimpleNamespace(encoder=encoder, eval=lambda: None)


def test_the_grid_of_the_paper_has_231_splits():
    splits = grid_splits(3)
    assert len(splits) == len(set(splits)) == 231
    assert all(sum(split) == 100 and all(share % 5 == 0 for share in split) for split in splits)
    assert len({split[0] for split in splits}) == 21


@given(st.sampled_from([5, 10, 20, 25, 50]), st.integers(1, 4))
def test_splits_are_all_there_are_in_ascending_order(step, layers):
    splits = grid_splits(layers, step)
    counted = np.stack(np.meshgrid(*[np.arange(0, 101, step)] * layers, indexing="ij"), -1).reshape(-1, layers)
    assert splits == [tuple(row) for row in counted.tolist() if sum(row) == 100]


def test_a_step_that_does_not_divide_is_refused():
    with pytest.raises(UserError, match="does not divide 100"):
        grid_splits(3, 7)


def test_winners_are_those_of_a_search_without_sharing():
    encoder = tiny_encoder("tap", 0.5, LAYERS, (5,), grid=GRID, depth=5).double()
    images = tiny_images(encoder, 4)
    ids = torch.tensor([3, 1, 8, 5])
    task = GridMean([Batch(images[:3], None, ids[:3]), Batch(images[3:], None, ids[3:])])
    found = search_splits(task, model_of(encoder), None, None, torch.device("cpu"), step=20)

    settings, splits = encoder.reducer.settings, grid_splits(3, 20)
    alone = np.empty((4, len(splits)))
    with torch.inference_mode():
        for column, split in enumerate(splits):
            encoder.reducer.settings = replace(settings, schedule=tuple(map(float, split)))
            for row in range(4):
                grid = encoder(images[row : row + 1], ids[row : row + 1]).grids[0]
                alone[row, column] = sum(value**3 for value in grid.flatten().tolist()) / grid.numel()
    np.testing.assert_allclose(found.losses, alone, rtol=1e-9)
    assert found.winners.tolist() == [list(splits[place]) for place in alone.argmin(axis=1)]
    np.testing.assert_allclose(found.schedule, np.mean([splits[place] for place in alone.argmin(axis=1)], axis=0))
    assert found.sample_id.tolist() == ids.tolist()
    # Two batches: block 1 once, block 2 for each of 6 first removals, the rest for all 21 splits.
    assert found.blocks_run == 2 * (1 + 6 + 21 * 3)
    assert found.blocks_alone == 2 * 21 * 5
    assert found.saving == pytest.approx(1 - 70 / 105)
