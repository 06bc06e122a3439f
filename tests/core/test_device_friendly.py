"""Every function runs without reading a value back: fake tensors have none, so any host synchronisation raises."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from tap.core.budget import allocate
from tap.core.matching import cosine_stand_ins, random_stand_ins, spatial_stand_ins, top_score_stand_in
from tap.core.noise import gumbel_like, stateless_uniform
from tap.core.recovery import reconstruct, removal_offset, resolve_pointers
from tap.core.register import Controller
from tap.core.selection import ragged_register_scores, register_scores, select
from tap.core.straight_through import gather_retained, soft_keep, straight_through


def layer_decision(scores: Tensor, logit: Tensor, budget: Tensor, patches: Tensor, valid: Tensor) -> Tensor:
    """One training decision from scores to the straight-through mask."""
    step = allocate(logit, budget, patches, last=False)
    hard = select(scores, step.removals, valid)
    return straight_through(hard, soft_keep(scores, step.target, 0.5, valid))


def decision_inputs() -> tuple[Tensor, ...]:
    valid = torch.ones(3, 10, dtype=torch.bool)
    return torch.randn(3, 10), torch.randn(3), torch.tensor([5, 3, 0]), torch.tensor([10, 9, 10]), valid


def grid_of(width: int) -> Tensor:
    return torch.arange(width).expand(2, width)


def some(rows: int, columns: int) -> Tensor:
    return torch.rand(rows, columns) > 0.5


def read_out() -> tuple[Tensor, Tensor]:
    controller = Controller(8)
    register = controller.initial("cls", 2)[:, 0]
    return controller.share_logit(register), controller.recovery_scale(register)


def recover() -> Tensor:
    endpoint = resolve_pointers(grid_of(6), 2)[0]
    return reconstruct(torch.randn(6, 4)[endpoint], torch.randn(6, 4), torch.rand(6))


CALLS: dict[str, Callable[[], object]] = {
    "decision": lambda: layer_decision(*decision_inputs()),
    "last": lambda: allocate(None, torch.tensor([2]), torch.tensor([5]), last=True),
    "scores": lambda: register_scores(torch.randn(2, 3, 4), torch.randn(2, 5, 3, 4)),
    "ragged": lambda: ragged_register_scores(torch.randn(2, 3, 4), torch.randn(3, 3, 4), torch.tensor([0, 0, 1])),
    "gather": lambda: gather_retained(torch.randn(6, 4), torch.rand(6), torch.tensor([0, 2])),
    "gumbel": lambda: gumbel_like(torch.randn(2, 5)),
    "uniform": lambda: stateless_uniform(2**62, torch.arange(4), 3, 6),
    "cosine": lambda: cosine_stand_ins(torch.randn(2, 3, 4), torch.randn(2, 5, 4), some(2, 5)),
    "spatial": lambda: spatial_stand_ins(grid_of(3), grid_of(5), 4, some(2, 5)),
    "top": lambda: top_score_stand_in(torch.randn(2, 5), 3, some(2, 5)),
    "random": lambda: random_stand_ins(0, torch.arange(2), 3, grid_of(3), 9, some(2, 5)),
    "offset": lambda: removal_offset(torch.randn(3, 4), torch.randn(3, 4)),
    "recover": recover,
    "readouts": read_out,
}


@pytest.mark.parametrize("name", CALLS)
def test_no_value_is_read_on_the_host(name: str) -> None:
    with FakeTensorMode():
        CALLS[name]()


@pytest.mark.parametrize("read", [lambda x: x.sum().item(), lambda x: bool(x.any()), lambda x: x.nonzero()])
def test_a_read_would_be_noticed(read: Callable[[Tensor], object]) -> None:
    with FakeTensorMode(), pytest.raises((DataDependentOutputException, DynamicOutputShapeException)):
        read(torch.ones(3))


def test_a_training_decision_is_one_graph() -> None:
    compiled = torch.compile(layer_decision, backend="eager", fullgraph=True)
    scores, logit, *rest = decision_inputs()
    gradients = []
    for function in (layer_decision, compiled):
        inputs = (scores.clone().requires_grad_(), logit.clone().requires_grad_())
        mask = function(*inputs, *rest)
        gradients.append((mask, *torch.autograd.grad((mask * torch.arange(30.0).view(3, 10)).sum(), inputs)))
    for eager, graph in zip(*gradients, strict=True):
        torch.testing.assert_close(graph, eager)
