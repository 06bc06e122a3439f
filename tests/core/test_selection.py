from math import isnan, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tap.core.selection import ragged_register_scores, register_scores, select

small = settings(deadline=None, max_examples=30, derandomize=True)


def slow_scores(query: Tensor, keys: Tensor) -> list[list[float]]:
    """Eq. 1 head by head and channel by channel, in Python floats."""
    scores = []
    for register, patches in zip(query.tolist(), keys.tolist(), strict=True):
        row = []
        for patch in patches:
            total = 0.0
            for head_query, head_key in zip(register, patch, strict=True):
                total += sum(a * b for a, b in zip(head_query, head_key, strict=True)) / sqrt(len(head_query))
            row.append(total)
        scores.append(row)
    return scores


def slow_keep(scores: list[float], removals: int, valid: list[bool]) -> list[bool]:
    """Alg. S2: repeatedly takes out the candidate that ranks last; NaN counts as the lowest score."""
    worth = [-float("inf") if isnan(score) else score for score in scores]
    kept = {column for column, real in enumerate(valid) if real}
    for _ in range(removals):
        kept.remove(min(kept, key=lambda column: (worth[column], -column)))
    return [column in kept for column in range(len(scores))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scores_match_the_equation(dtype: torch.dtype) -> None:
    query, keys = torch.randn(2, 3, 5).to(dtype), torch.randn(2, 4, 3, 5).to(dtype)
    scores = register_scores(query, keys)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores.double(), torch.tensor(slow_scores(query, keys)).double(), rtol=1e-5, atol=1e-5)


def test_autocast_does_not_round_the_scores() -> None:
    query, keys = torch.randn(2, 3, 8), torch.randn(2, 6, 3, 8)
    plain = register_scores(query, keys)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(register_scores(query, keys), plain)


def test_score_gradients_reach_query_and_keys() -> None:
    query, keys = torch.randn(2, 2, 3, requires_grad=True), torch.randn(2, 5, 2, 3, requires_grad=True)
    upstream = torch.randn(2, 5)
    to_query, to_keys = torch.autograd.grad((register_scores(query, keys) * upstream).sum(), (query, keys))
    for image in range(2):
        by_hand = sum(upstream[image, i] * keys[image, i] / sqrt(3) for i in range(5))
        torch.testing.assert_close(to_query[image], by_hand.detach())
        for i in range(5):
            torch.testing.assert_close(to_keys[image, i], (upstream[image, i] * query[image] / sqrt(3)).detach())


def test_a_score_has_the_same_bits_in_any_batch_and_packing() -> None:
    query, keys = torch.randn(5, 12, 64), torch.randn(5, 49, 12, 64)
    scores = register_scores(query, keys)
    for image in range(5):
        assert torch.equal(register_scores(query[image : image + 1], keys[image : image + 1])[0], scores[image])
    rows = torch.tensor([(image, patch) for image in range(5) for patch in range(image, 49, image + 1)])
    packed = ragged_register_scores(query, keys[rows[:, 0], rows[:, 1]], rows[:, 0])
    assert torch.equal(packed, scores[rows[:, 0], rows[:, 1]])


@st.composite
def rankings(draw: st.DrawFn) -> tuple[list[list[float]], list[int], list[list[bool]]]:
    columns = draw(st.integers(1, 9))
    value = st.sampled_from([-1.5, -0.0, 0.0, 0.25, 2.0, float("inf"), -float("inf"), float("nan")])
    scores, removals, valid = [], [], []
    for _ in range(draw(st.integers(1, 4))):
        scores.append(draw(st.lists(value, min_size=columns, max_size=columns)))
        valid.append(draw(st.lists(st.booleans(), min_size=columns, max_size=columns).filter(any)))
        removals.append(draw(st.integers(0, sum(valid[-1]) - 1)))
    return scores, removals, valid


@small
@given(rankings())
def test_ranking_order_ties_and_padding(case: tuple[list[list[float]], list[int], list[list[bool]]]) -> None:
    scores, removals, valid = case
    for dtype in (torch.float32, torch.bfloat16):
        keep = select(torch.tensor(scores, dtype=dtype), torch.tensor(removals), torch.tensor(valid))
        for row in range(len(scores)):
            assert keep[row].tolist() == slow_keep(scores[row], removals[row], valid[row])


@small
@given(columns=st.integers(1, 40), seed=st.integers(0, 999))
def test_cardinality_and_permutation(columns: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randperm(columns, generator=generator).float().unsqueeze(0) - 3.5
    removals = torch.randint(0, columns, (1,), generator=generator)
    keep = select(scores, removals)
    assert keep.sum() == columns - removals
    assert scores[keep].min() == removals - 3.5
    order = torch.randperm(columns, generator=generator)
    assert torch.equal(select(scores[:, order], removals), keep[:, order])


def test_bfloat16_ties_fall_to_the_lower_index() -> None:
    scores = torch.tensor([[1.0, 1.001, 1.002, 0.5, 1.0005]], dtype=torch.bfloat16)
    assert len(set(scores[0].tolist())) == 2
    assert select(scores, torch.tensor([3])).tolist() == [[True, True, False, False, False]]


def test_ties_on_a_grid_long_enough_for_other_sorting_kernels() -> None:
    scores = torch.zeros(3, 4096)
    scores[:, ::2] = -0.0
    scores[1, 4000:] = 1.0
    keep = select(scores, torch.tensor([4000, 4000, 0]))
    assert keep[0].nonzero().flatten().tolist() == list(range(96))
    assert keep[1].nonzero().flatten().tolist() == list(range(4000, 4096))
    assert keep[2].all()


def test_an_images_ranking_ignores_its_batch() -> None:
    scores = torch.randint(0, 5, (6, 30)).float()
    removals = torch.tensor([0, 29, 3, 15, 15, 7])
    whole = select(scores, removals)
    for image in range(6):
        assert torch.equal(select(scores[image : image + 1], removals[image : image + 1])[0], whole[image])


def test_a_nan_score_goes_first() -> None:
    scores = torch.tensor([[float("nan"), -3.0, 7.0, float("nan")]])
    assert select(scores, torch.tensor([1])).tolist() == [[True, True, True, False]]
    assert select(scores, torch.tensor([2])).tolist() == [[False, True, True, False]]
    assert select(scores, torch.tensor([0])).all()
