"""Rankings of registers beside others: what they are of, that nothing of the model changes, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).parents[1] / "encoder"))
from tiny_models import tiny_encoder, tiny_images

from tap.errors import UserError
from tap.studies.register_diagnostics import (
    agreement,
    attention_agreement,
    fresh_registers,
    hear,
    rank_correlation,
    register_in,
)

LAYERS, IDS = (2, 3), torch.tensor([5, 9])


@pytest.fixture(scope="module")
def encoder():
    return tiny_encoder("tap", 0.5, LAYERS, (4,), grid=(4, 4))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=3, max_size=12))
def test_rank_correlation_is_spearmans_over_what_both_have(pairs):
    first, second = np.array(pairs, dtype=np.float32).T
    gone = np.full(2, np.nan, dtype=np.float32)
    found = rank_correlation(np.concatenate([first, gone, [1.0]]), np.concatenate([second, [0.0, 1.0], [np.nan]]))
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(spearmanr(first, second).statistic)


def test_a_register_agrees_with_itself_and_the_pass_is_that_of_the_encoder(encoder):
    images = tiny_images(encoder, 2)
    own = encoder.reducer.controller.registers["cls"].detach()
    with torch.inference_mode():
        wanted = encoder(images, IDS, return_trace=True).trace
        trained = hear(encoder, images, IDS)
        again = hear(encoder, images, IDS, torch.stack([own, own]))
        assert "scores" not in vars(encoder.reducer)
        assert "initial" not in vars(encoder.reducer.controller)
    assert {layer: mask.tolist() for layer, mask in trained.kept.items()} == {
        layer: mask.tolist() for layer, mask in wanted.kept.items()
    }
    correlations, overlaps = agreement(trained, again)
    assert correlations == pytest.approx([1.0] * 8)  # two blocks, two images, two registers
    assert overlaps == [1.0] * 4


def test_another_register_ranks_as_a_model_that_has_it_does(encoder):
    images = tiny_images(encoder, 2)
    other = 5.0 * torch.randn(16, generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        trained, heard = hear(encoder, images, IDS), hear(encoder, images, IDS, other[None])
        own = encoder.reducer.controller.registers["cls"].detach().clone()
        encoder.reducer.controller.registers["cls"].data.copy_(other)
        wanted = hear(encoder, images, IDS)
        encoder.reducer.controller.registers["cls"].data.copy_(own)
    for layer in LAYERS:
        np.testing.assert_array_equal(heard.scores[layer], wanted.scores[layer])
    assert agreement(trained, heard)[0] != pytest.approx([1.0] * 4)


def test_what_a_block_keeps_are_its_best_scores_and_attention_is_asked_of_the_same_candidates(encoder):
    with torch.inference_mode():
        heard = hear(encoder, tiny_images(encoder, 2), IDS, attention=True)
    for layer in LAYERS:
        scores, kept = heard.scores[layer], heard.kept[layer]
        assert (np.isnan(scores) == np.isnan(heard.attention[layer])).all()
        for image in range(2):
            best = np.argsort(np.where(np.isnan(scores[image]), np.inf, -scores[image]), kind="stable")
            assert set(best[: kept[image].sum()]) == set(np.flatnonzero(kept[image]))
    correlations, overlaps = attention_agreement(heard)
    assert len(correlations) == len(overlaps) == 4
    assert all(0 <= overlap <= 1 for overlap in overlaps)


def test_fresh_registers_are_a_function_of_the_seed_and_no_training_starts_with_one():
    first, again = (torch.stack(fresh_registers(8, 0.02, 8, seed=4)) for _ in range(2))
    assert torch.equal(first, again)
    assert len({tuple(row.tolist()) for row in first}) == 8
    assert not torch.equal(first, torch.stack(fresh_registers(8, 0.02, 8, seed=5)))


def test_a_file_of_another_task_holds_no_register_of_this_one(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"encoder.reducer.controller.registers.seg": torch.ones(4)}, path)
    assert register_in(path, "seg").tolist() == [1.0] * 4
    with pytest.raises(UserError, match="holds no register of 'det'"):
        register_in(path, "det")
