from fractions import Fraction
from math import floor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tap.core.budget import (
    Allocation,
    allocate,
    integer_removal,
    keep_count,
    removal_capacity,
    settle_proposal,
    soft_target,
)

small = settings(deadline=None, max_examples=30, derandomize=True)

BUDGET_TESTS = [
    (196, 196, [0, 0], [0, 0, 0]),
    (196, 137, [18, 20], [18, 20, 21]),
    (196, 98, [25, 31], [25, 31, 42]),
    (196, 59, [0, 68], [0, 68, 69]),
    (4, 1, [3], [3, 0]),
]


def slow_removals(patches: int, keep: int, proposals: list[float]) -> list[int]:
    """Alg. 1 for one image in exact rational arithmetic."""
    left, removals = patches - keep, []
    for proposal in proposals:
        removal = min(floor(Fraction(proposal) + Fraction(1, 2)), left, patches - sum(removals) - 1)
        removals.append(removal)
        left -= removal
    return [*removals, left]


def run(patches: int, keep: int, proposals: Tensor) -> Tensor:
    """All layers for a batch; proposals are (B, M - 1)."""
    batch = proposals.shape[0]
    count, budget = torch.full((batch,), patches), torch.full((batch,), patches - keep)
    removals = []
    for layer in range(proposals.shape[1]):
        step = settle_proposal(proposals[:, layer], budget, count)
        removals.append(step.removals)
        count, budget = count - step.removals, step.remaining
    removals.append(allocate(None, budget, count, last=True).removals)
    return torch.stack(removals, dim=1)


@pytest.mark.parametrize(("patches", "keep", "proposals", "removals"), BUDGET_TESTS)
def test_the_papers_synthetic_checks(patches: int, keep: int, proposals: list[int], removals: list[int]) -> None:
    """The five rows of tab:budget-tests."""
    assert run(patches, keep, torch.tensor([proposals], dtype=torch.float32)).tolist() == [removals]
    assert sum(removals) == patches - keep


@st.composite
def proposal_batches(draw: st.DrawFn) -> tuple[int, int, Tensor]:
    patches = draw(st.integers(1, 300))
    keep = draw(st.integers(1, patches))
    value = st.one_of(st.floats(0, 320, width=32), st.integers(0, 600).map(lambda twice: twice / 2))
    rows = draw(st.lists(st.lists(value, min_size=3, max_size=3), min_size=1, max_size=4))
    return patches, keep, torch.tensor(rows, dtype=torch.float32)


@small
@given(proposal_batches())
def test_any_proposals_meet_the_budget_exactly(case: tuple[int, int, Tensor]) -> None:
    patches, keep, proposals = case
    removals = run(patches, keep, proposals)
    assert removals.tolist() == [slow_removals(patches, keep, row) for row in proposals.tolist()]
    assert (patches - removals.cumsum(dim=1) >= 1).all()
    assert removals.min() >= 0
    assert (removals.sum(dim=1) == patches - keep).all()


@small
@given(
    patches=st.integers(1, 4096),
    rate=st.sampled_from([0.01, 0.3, 0.5, 0.7, 0.99, 1.0]),
    layers=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_any_register_reaches_the_keep_count(patches: int, rate: float, layers: int, seed: int) -> None:
    """Eq. S3: N_l - B_l stays K, whatever the readout says, saturated sigmoids included."""
    logits = torch.randn(6, layers, generator=torch.Generator().manual_seed(seed)) * 12
    keep = keep_count(patches, rate)
    count, budget = torch.full((6,), patches), torch.full((6,), patches - keep)
    for layer in range(layers):
        step = allocate(logits[:, layer], budget, count, last=layer == layers - 1)
        assert torch.equal(step.remaining, budget - step.removals)
        count, budget = count - step.removals, step.remaining
        assert torch.equal(count - budget, torch.full((6,), keep))
        assert count.min() >= 1
    assert (count == keep).all()


def test_an_images_allocation_ignores_its_batch() -> None:
    logits = torch.randn(300) * 3
    budget, patches = torch.randint(0, 3000, (300,)), torch.randint(3001, 4096, (300,))
    whole = allocate(logits, budget, patches, last=False)
    order = torch.randperm(300)
    shuffled = allocate(logits[order], budget[order], patches[order], last=False)
    assert torch.equal(shuffled.removals, whole.removals[order])
    for first in range(0, 300, 3):
        few = slice(first, first + 3)
        alone = allocate(logits[few], budget[few], patches[few], last=False)
        assert torch.equal(alone.removals, whole.removals[few])
        assert torch.equal(alone.target, whole.target[few])


@pytest.mark.parametrize(
    ("proposal", "capacity", "removal"),
    [
        (0.5, 9, 1),
        (1.5, 9, 2),  # torch.round gives 2 here and 2 for 2.5
        (2.5, 9, 3),
        (0.49999997, 9, 0),  # adding 1/2 in float32 gives 1.0
        (8388607.5, 2**23, 8388608),
        (4095.5, 4095, 4095),
        (30.0, 7, 7),
        (float("inf"), 7, 7),
        (float("nan"), 7, 0),
        (5.0, 0, 0),
    ],
)
def test_rounding_is_half_up_and_capped(proposal: float, capacity: int, removal: int) -> None:
    removed = integer_removal(torch.tensor([proposal]), torch.tensor([capacity]))
    assert removed.tolist() == [removal]
    assert removed.dtype == torch.int64


def test_capacity_leaves_one_patch() -> None:
    capacity = removal_capacity(torch.tensor([5, 5, 0, 9]), torch.tensor([6, 4, 3, 1]))
    assert capacity.tolist() == [5, 3, 0, 0]


def test_soft_target_has_gradient_only_below_the_capacity() -> None:
    proposal = torch.tensor([2.5, 3.0, 3.5, 0.0], requires_grad=True)
    target = soft_target(proposal, torch.tensor([3, 3, 3, 0]))
    assert target.tolist() == [2.5, 3.0, 3.0, 0.0]
    target.sum().backward()
    assert proposal.grad is not None
    assert proposal.grad.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_each_layer_has_a_local_gradient() -> None:
    """dQ/dg = sigmoid'(g) B, and nothing flows on through the integer budget."""
    logit = torch.tensor([-1.2, 0.4, 3.0], requires_grad=True)
    budget, patches = torch.tensor([98, 40, 7]), torch.tensor([196, 50, 30])
    step = allocate(logit, budget, patches, last=False)
    assert not step.removals.requires_grad
    assert not step.remaining.requires_grad
    (gradient,) = torch.autograd.grad(step.target.sum(), logit)
    share = torch.sigmoid(logit.detach().double())
    assert torch.allclose(step.target.double(), share * budget, rtol=1e-6)
    assert torch.allclose(gradient.double(), share * (1 - share) * budget, rtol=1e-5)


def test_the_last_layer_takes_the_remainder_without_gradient() -> None:
    step = allocate(torch.ones(3, requires_grad=True), torch.tensor([5, 0, 2]), torch.tensor([6, 3, 9]), last=True)
    assert step.removals.tolist() == [5, 0, 2]
    assert step.target.tolist() == [5.0, 0.0, 2.0]
    assert step.remaining.tolist() == [0, 0, 0]
    assert not step.target.requires_grad


def test_no_budget_removes_nothing() -> None:
    step = allocate(torch.tensor([50.0, -50.0]), torch.zeros(2, dtype=torch.int64), torch.tensor([8, 1]), last=False)
    assert isinstance(step, Allocation)
    assert step.removals.tolist() == [0, 0]
    assert step.target.tolist() == [0.0, 0.0]


def test_half_precision_logits_are_read_in_float32() -> None:
    logit = torch.tensor([0.3, -2.0], dtype=torch.bfloat16)
    step = allocate(logit, torch.tensor([4000, 333]), torch.tensor([4096, 500]), last=False)
    expected = torch.sigmoid(logit.double()) * torch.tensor([4000, 333])
    assert step.target.dtype == torch.float32
    assert torch.allclose(step.target.double(), expected, rtol=1e-6)
    assert step.removals.tolist() == [floor(value + 0.5) for value in expected.tolist()]


def test_only_the_last_layer_goes_without_a_share() -> None:
    with pytest.raises(ValueError, match="share_logit"):
        allocate(None, torch.tensor([3]), torch.tensor([5]), last=False)
