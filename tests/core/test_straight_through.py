from math import exp

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tap.core.straight_through import gather_retained, soft_keep, straight_through

small = settings(deadline=None, max_examples=30, derandomize=True)


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x)) if x > -700 else 0.0


def slow_soft(scores: list[float], target: float, tau: float) -> list[float]:
    """Eqs. S4-S5 for one image in double precision, by a bisection of its own on the removed mass."""
    if target == 0:
        return [1.0] * len(scores)
    low, high = min(scores) - 60 * tau, max(scores) + 60 * tau
    for _ in range(200):
        theta = (low + high) / 2
        if sum(sigmoid((theta - z) / tau) for z in scores) < target:
            low = theta
        else:
            high = theta
    return [sigmoid((z - theta) / tau) for z in scores]


def slow_jacobian(scores: list[float], target: float, tau: float, step: float = 1e-5) -> tuple[Tensor, Tensor]:
    """Central differences of `slow_soft`: ds_i/dz_j as (i, j), ds_i/dQ as (i,)."""
    columns = []
    for j in range(len(scores)):
        up, down = list(scores), list(scores)
        up[j] += step
        down[j] -= step
        pairs = zip(slow_soft(up, target, tau), slow_soft(down, target, tau), strict=True)
        columns.append([(a - b) / (2 * step) for a, b in pairs])
    pairs = zip(slow_soft(scores, target + step, tau), slow_soft(scores, target - step, tau), strict=True)
    by_target = [(a - b) / (2 * step) for a, b in pairs]
    return torch.tensor(columns, dtype=torch.float64).T, torch.tensor(by_target, dtype=torch.float64)


def jacobian(scores: Tensor, target: Tensor, tau: float, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """ds_i/dz_j and ds_i/dQ of one image (B = 1), one backward pass per output."""
    scores, target = scores.clone().requires_grad_(), target.clone().requires_grad_()
    soft = soft_keep(scores, target, tau, valid)
    rows = [torch.autograd.grad(soft[0, i], (scores, target), retain_graph=True) for i in range(soft.shape[1])]
    return torch.stack([row[0][0] for row in rows]), torch.cat([row[1] for row in rows])


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[float], float, float]:
    scores = draw(st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=7))
    tau = draw(st.sampled_from([0.1, 0.35, 1.0]))
    share = draw(st.floats(0.01, 1.0))
    target = torch.tensor(share * (len(scores) - 1), dtype=torch.float32).item()
    return scores, target, tau


@small
@given(problems())
def test_probabilities_match_the_slow_solution(case: tuple[list[float], float, float]) -> None:
    scores, target, tau = case
    soft = soft_keep(torch.tensor([scores]), torch.tensor([target]), tau)
    assert soft.dtype == torch.float32
    slow = torch.tensor(slow_soft(scores, target, tau), dtype=torch.float64)
    torch.testing.assert_close(soft[0].double(), slow, rtol=0, atol=2e-5)


@small
@given(problems())
def test_probabilities_keep_the_order_of_the_scores(case: tuple[list[float], float, float]) -> None:
    scores, target, tau = case
    soft = soft_keep(torch.tensor([sorted(scores)]), torch.tensor([target]), tau)[0]
    assert (soft.diff() >= 0).all()


@pytest.mark.parametrize("patches", [2, 64, 196, 1024, 4096])
@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_keep_mass_is_the_constraint(patches: int, tau: float) -> None:
    """Eq. S5 at the sequence lengths of the paper."""
    target = torch.tensor([1e-3, 0.5, 0.3 * patches, patches - 1.0]).clamp_max(patches - 1.0)
    scores = torch.randn(4, patches) * 5
    soft = soft_keep(scores, target, tau)
    assert ((soft >= 0) & (soft <= 1)).all()
    mass = soft.double().sum(dim=1)
    torch.testing.assert_close(mass, patches - target.double(), rtol=0, atol=2e-6 * patches + 1e-5)


def test_large_scores_lose_no_mass() -> None:
    """Only differences of scores count, also where a float32 has few digits left behind the point."""
    scores = torch.randint(-640, 640, (8, 200), generator=torch.Generator().manual_seed(0)) / 64
    target = torch.linspace(1, 180, 8)
    for tau in (0.1, 1.0):
        near, far = (soft_keep(scores + offset, target, tau) for offset in (0.0, 1e4))
        assert torch.equal(near, far)
        torch.testing.assert_close(far.sum(dim=1), 200 - target, rtol=0, atol=1e-3)


@pytest.mark.parametrize("tau", [0.1, 0.4, 1.0])
@pytest.mark.parametrize("target", [0.2, 1.0, 2.0, 3.7])
def test_closed_form_gradients_match_finite_differences(target: float, tau: float) -> None:
    """Eqs. S6 and S7, against differences of an independent solver."""
    scores = (torch.randn(1, 6) * 0.7).float()
    by_score, by_target = jacobian(scores, torch.tensor([target]), tau)
    target = torch.tensor(target).item()
    slow_by_score, slow_by_target = slow_jacobian(scores[0].tolist(), target, tau)
    torch.testing.assert_close(by_score.double(), slow_by_score, rtol=2e-3, atol=2e-4)
    torch.testing.assert_close(by_target.double(), slow_by_target, rtol=2e-3, atol=2e-4)


def test_gradients_respect_the_constraint() -> None:
    """Equal score shifts change nothing, no score changes the keep mass, and one more removal costs one unit of it."""
    by_score, by_target = jacobian(torch.randn(1, 20), torch.tensor([7.3]), 0.5)
    assert by_score.sum(dim=0).abs().max() < 1e-5
    assert by_score.sum(dim=1).abs().max() < 1e-5
    assert abs(by_target.sum().item() + 1) < 1e-5
    assert (by_target <= 0).all()


@pytest.mark.parametrize("gap", [20.0, 34.0, 60.0])
def test_a_saturated_mask_does_not_amplify(gap: float) -> None:
    """With A below 1e-6 every denominator is 1e-6: two patches, one to remove, theta in the middle of the gap."""
    tau = 0.5
    by_score, by_target = jacobian(torch.tensor([[0.0, gap * tau]]), torch.tensor([1.0]), tau)
    a = sigmoid(gap / 2) * sigmoid(-gap / 2)
    total = max(2 * a, 1e-6)
    by_hand = [[a / tau * (1 - a / total), -a / tau * a / total], [-a / tau * a / total, a / tau * (1 - a / total)]]
    torch.testing.assert_close(by_score.double(), torch.tensor(by_hand).double(), rtol=1e-3, atol=1e-30)
    torch.testing.assert_close(by_target.double(), torch.full((2,), -a / total).double(), rtol=1e-3, atol=1e-30)


def test_no_removal_keeps_all_without_gradient() -> None:
    scores = torch.randn(3, 5, requires_grad=True)
    target = torch.tensor([0.0, 2.0, 0.0], requires_grad=True)
    soft = soft_keep(scores, target, 0.3)
    assert torch.equal(soft[[0, 2]].detach(), torch.ones(2, 5))
    (soft * torch.randn(3, 5)).sum().backward()
    assert scores.grad is not None
    assert target.grad is not None
    assert not scores.grad[[0, 2]].any()
    assert not target.grad[[0, 2]].any()
    assert scores.grad[1].any()
    assert target.grad[1] != 0


def test_padding_changes_nothing() -> None:
    scores, target = torch.randn(1, 6), torch.tensor([2.4])
    valid = torch.tensor([[True, False, True, True, False, True, True, True]])
    for garbage in (0.0, 1e6, float("inf"), float("nan")):
        padded = torch.full((1, 8), garbage).masked_scatter(valid, scores)
        torch.testing.assert_close(soft_keep(padded, target, 0.5, valid)[valid], soft_keep(scores, target, 0.5)[0])
        assert not soft_keep(padded, target, 0.5, valid)[~valid].any()
        by_score, by_target = jacobian(padded, target, 0.5, valid)
        plain_by_score, plain_by_target = jacobian(scores, target, 0.5)
        torch.testing.assert_close(by_score[valid[0]][:, valid[0]], plain_by_score)
        torch.testing.assert_close(by_target[valid[0]], plain_by_target)
        assert not by_score[~valid[0]].any()
        assert not by_score[:, ~valid[0]].any()


def test_an_image_ignores_its_batch_and_its_order() -> None:
    scores, target = torch.randn(5, 30) * 3, torch.tensor([0.0, 4.2, 15.0, 28.9, 0.01])
    whole = soft_keep(scores, target, 0.2)
    for image in range(5):
        alone = soft_keep(scores[image : image + 1], target[image : image + 1], 0.2)
        torch.testing.assert_close(alone[0], whole[image], rtol=1e-5, atol=1e-6)
    order = torch.randperm(30)
    torch.testing.assert_close(soft_keep(scores[:, order], target, 0.2), whole[:, order], rtol=1e-5, atol=1e-5)


def test_autocast_and_half_precision_scores_are_solved_in_float32() -> None:
    scores = torch.randn(2, 50).bfloat16().requires_grad_()
    target = torch.tensor([3.5, 40.25])
    plain = soft_keep(scores.float(), target, 0.3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        soft = soft_keep(scores, target, 0.3)
    assert torch.equal(soft, plain)
    (gradient,) = torch.autograd.grad(soft.square().sum(), scores)
    assert gradient.dtype == torch.bfloat16
    assert gradient.any()


def test_straight_through_is_hard_forward_and_soft_backward() -> None:
    hard = torch.tensor([[True, False, True]])
    soft = torch.tensor([[0.1, 0.7, 1 / 3]], requires_grad=True)
    assert straight_through(hard, torch.full((1, 3), float("nan"))).tolist() == [[1.0, 0.0, 1.0]]
    mask = straight_through(hard, soft)
    assert mask.tolist() == [[1.0, 0.0, 1.0]]
    upstream = torch.randn(1, 3)
    (gradient,) = torch.autograd.grad((mask * upstream).sum(), soft)
    assert torch.equal(gradient, upstream)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gathering_returns_the_retained_rows_and_their_gradients(dtype: torch.dtype) -> None:
    """Eq. 6: bit-equal features forward; dL/dm_i = x_i . dL/d(row) backward, and none at removed rows."""
    tokens = torch.randn(5, 4).to(dtype).requires_grad_()
    soft = torch.rand(5, requires_grad=True)
    rows = torch.tensor([0, 2, 3])
    mask = straight_through(torch.tensor([True, False, True, True, False]), soft)
    kept = gather_retained(tokens, mask, rows)
    assert kept.dtype == dtype
    assert torch.equal(kept, tokens[rows])
    upstream = torch.randn(3, 4).to(dtype)
    to_tokens, to_soft = torch.autograd.grad((kept * upstream).sum(), (tokens, soft))
    assert torch.equal(to_tokens[rows], upstream)
    assert not to_tokens[[1, 4]].any()
    by_hand = (tokens[rows].double() * upstream.double()).sum(dim=1)
    torch.testing.assert_close(to_soft[rows].double(), by_hand.detach(), rtol=1e-5, atol=1e-5)
    assert not to_soft[[1, 4]].any()


def test_a_removed_score_receives_gradient_through_the_threshold() -> None:
    """Sec. Training: the constraint couples all candidates, also those outside the gathered rows."""
    scores = torch.randn(1, 8, requires_grad=True)
    hard = torch.tensor([[True] * 5 + [False] * 3])
    mask = straight_through(hard, soft_keep(scores, torch.tensor([3.0]), 1.0))
    kept = gather_retained(torch.randn(8, 4), mask[0], torch.arange(5))
    (gradient,) = torch.autograd.grad(kept.square().sum(), scores)
    assert (gradient[0, 5:] != 0).all()
