"""ATS: the public values, and the draw against a table of all distances."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from public_vit import reference
from timm.models.vision_transformer import Block
from tiny_models import tiny_encoder, tiny_images
from torch import Tensor, nn

from tap.config.options.ats import AtsOptions
from tap.encoder.blocks import project
from tap.encoder.layout import Layout
from tap.encoder.state import ForwardState
from tap.encoder.tokens import Tokens
from tap.errors import UserError
from tap.reducers.ats import draw, significance
from tap.reducers.base import ReducerSettings
from tap.reducers.registry import get

CPU = torch.device("cpu")


def public_block() -> tuple[dict[str, Tensor], Any, Tokens]:
    """Reference values, the block they are of, and its input."""
    public = reference("ats")
    block = Block(48, 3, qkv_bias=True, norm_layer=partial(nn.LayerNorm, eps=1e-6)).eval()
    block.load_state_dict({name[2:]: value for name, value in public.items() if name.startswith("w.")})
    return public, block, Tokens.dense(public["x"], 1)


def scores_of(block: Any, tokens: Tokens) -> Tensor:
    hidden = block.norm1(tokens.x)
    return significance(tokens, *(project(block.attn, hidden, part) for part in ("q", "k", "v")))


def test_public_values():
    """Scores, drawn patches and states of one block, and counts of three in a row (class token left out)."""
    public, block, tokens = public_block()
    reducer = get("ats")(ReducerSettings(48, 12, options=AtsOptions(first_block=1, last_block=3)))
    state = ForwardState((14, 14), 98, torch.zeros(3, dtype=torch.int64))
    with torch.no_grad():
        scores = scores_of(block, tokens)
        found = [reducer.run_block(1, block, tokens, state)]
        for layer in (2, 3):
            found.append(reducer.run_block(layer, block, found[-1], state))
    ascending, order = scores.sort(dim=1)
    torch.testing.assert_close(ascending, public["score_sorted"], rtol=0, atol=1e-6)
    assert torch.equal(order, public["score_sorted_idx"].long())
    assert [tokens.layout.counts for tokens in found] == [(22, 33, 20), (16, 20, 16), (14, 19, 15)]
    for image in range(3):  # public rows: the class token, then by increasing score
        rows = found[0].grid(found[0].x)[image, : found[0].layout.counts[image]]
        kept = found[0].index[image, : len(rows)]
        by_score = scores[image, kept].argsort()
        expected = public["block_y"][image][public["block_policy"][image, :, 0] > 0]
        torch.testing.assert_close(rows[by_score], expected[1:], rtol=0, atol=1e-4)
        torch.testing.assert_close(found[0].x[found[0].layout.starts[image]], expected[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize(("points", "counts"), [(196, [22, 33, 20]), (98, [15, 25, 16])])
def test_public_counts_with_fewer_points(points, counts):
    _, block, tokens = public_block()
    with torch.no_grad():
        keep = draw(scores_of(block, tokens), torch.tensor(float(points)), tokens.layout)
    assert keep.sum(dim=1).tolist() == counts


@pytest.mark.parametrize("most", [98, 63, 30, 5, 1])
def test_a_limit_below_the_number_of_points(most):
    """The public code fails there. Here the best of the drawn patches stay."""
    _, block, tokens = public_block()
    options = AtsOptions(first_block=1, last_block=1, most=most)
    state = ForwardState((14, 14), 98, torch.zeros(3, dtype=torch.int64))
    with torch.no_grad():
        found = get("ats")(ReducerSettings(48, 12, options=options)).run_block(1, block, tokens, state)
        scores = scores_of(block, tokens)
        drawn = draw(scores, torch.tensor(196.0), tokens.layout)
    for image, count in enumerate(min(number, most) for number in (22, 33, 20)):
        best = scores[image].masked_fill(~drawn[image], -1).topk(count).indices
        assert found.index[image, :count].tolist() == sorted(best.tolist())


def nearest(scores: list[float], points: int) -> set[int]:
    """The draw as ATS describes it: every point takes the patch whose place is nearest, the lower one of two."""
    order = sorted(range(len(scores)), key=lambda patch: (scores[patch], -patch))
    height, place = 0.0, []
    for patch in order:
        height += scores[patch]
        place.append(height)
    low, high = place[0], place[-1]
    if not high > low:
        return set(range(len(scores)))
    place = [(value - low) / (high - low) for value in place]
    start = min(value for value in place if value > 0) if points > 1 else 1.0
    drawn = set()
    for point in range(points):
        y = start + point * (1 - start) / max(points - 1, 1)
        distances = [abs(y - value) for value in place]
        drawn.add(order[distances.index(min(distances))])
    return drawn


@settings(deadline=None, max_examples=60)
@given(
    scores=st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=9), min_size=1, max_size=3),
    points=st.integers(1, 30),
)
def test_draw(scores, points):
    """Small whole scores, so that sums are exact and ties occur; several images of different length."""
    layout = Layout.build(1, [len(image) for image in scores], CPU)
    grid = torch.zeros(len(scores), layout.width)
    for image, values in enumerate(scores):
        grid[image, : len(values)] = torch.tensor(values)
    keep = draw(grid, torch.tensor(float(points)), layout)
    for image, values in enumerate(scores):
        found = set(keep[image].nonzero().flatten().tolist())
        expected = nearest([float(value) for value in values], points)
        # A point in the very middle of two patches falls to either side of it by the rounding of a product.
        assert found == expected or near_a_middle(values, points)


def near_a_middle(values: list[int], points: int) -> bool:
    """Whether a point lies within rounding of the middle between two places."""
    ordered = torch.tensor(sorted(values)).double().cumsum(0)
    place = (ordered - ordered[0]) / (ordered[-1] - ordered[0])
    start = place[place > 0].min() if points > 1 else torch.tensor(1.0)
    y = start + torch.arange(points) * (1 - start) / max(points - 1, 1)
    return bool((y[:, None] - (place[1:] + place[:-1])[None] / 2).abs().min() < 1e-9)


def test_more_samples_leave_more():
    """What calibration relies on; in the end nearly everything stays."""
    encoder = tiny_encoder("ats", 0.5, grid=(6, 6), settings={"options": AtsOptions(first_block=2, last_block=3)})
    images, means = tiny_images(encoder, 4), []
    for threshold in (0.05, 0.2, 0.5, 1.0, 4.0, 16.0):
        encoder.reducer.threshold.fill_(threshold)
        with torch.no_grad():
            means.append(sum(encoder(images).final_counts) / 4)
    assert means == sorted(means)
    assert means[0] <= 3
    assert means[-1] > 20


def test_no_score_and_no_number():
    layout = Layout.build(0, [4, 4], CPU)
    scores = torch.tensor([[0.0, 0.0, 0.0, 0.0], [float("nan")] * 4])
    assert draw(scores, torch.tensor(3.0), layout).all()


def test_refused():
    with pytest.raises(UserError, match="no block from 4 to 2 in a model with 3"):
        get("ats")(ReducerSettings(48, 3, layers=(1,)))
