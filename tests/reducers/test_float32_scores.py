"""Scores that a method learns are computed in float32: half precision would round neighbours to one score."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny_encoder, tiny_images

from tap.reducers.cropr import Scorer
from tap.reducers.dynamicvit import Predictor
from tap.reducers.mask_decoder import MaskDecoder
from tap.reducers.merging import Bipartite
from tap.reducers.svit import Gate

WIDTH = 48
SCORERS = {
    "dynamicvit": Predictor(WIDTH),
    "svit": Gate(WIDTH),
    "dtop": MaskDecoder(WIDTH, 24, 5, 2, 2, 0.0),
    "cropr": Scorer(WIDTH, 3),
}


@pytest.mark.parametrize("method", SCORERS)
def test_autocast_does_not_reach_learned_scores(method):
    scorer, patches = SCORERS[method].eval(), torch.randn(2, 30, WIDTH)
    with torch.no_grad():
        expected = scorer(patches)
        with torch.autocast("cpu", torch.bfloat16):
            found = scorer(patches)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_tome_averages_half_precision_keys_in_float32(monkeypatch):
    """Rounded mean keys would pair other tokens."""
    encoder = tiny_encoder("tome", 0.5, (1,), grid=(6, 6), width=WIDTH)
    match, seen = Bipartite.match, []

    def noting(metric, *rest):
        seen.append(metric.dtype)
        return match(metric, *rest)

    monkeypatch.setattr(Bipartite, "match", noting)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        encoder(tiny_images(encoder, 2))
    assert set(seen) == {torch.float32}
