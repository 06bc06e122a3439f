"""TAP with another ranking or estimator: what each replaces, and what stays as it is."""

import pytest
import torch
from tiny_models import tiny_encoder, tiny_images

from tap.reducers.base import TrainingPass
from tap.reducers.tap_estimators import IndependentGates

VITDET = {"window": 2, "global_blocks": (2, 3), "relative": True}


def encoder_with(rate=0.5, trunk=None, reads=(), **settings):
    return tiny_encoder("tap", rate, settings=settings, reads=reads, **(trunk or {}))


def slow_incoming(encoder, images, block_number):
    """Mean attention probability, float64, that each patch gets at a block without removals before it; one image."""
    encoder = encoder.double()
    tokens, _ = encoder.begin(images.double())
    for block in encoder.vit.blocks[: block_number - 1]:
        tokens = tokens.with_states(block(tokens.rectangle))
    block = encoder.vit.blocks[block_number - 1]
    attn, x = block.attn, block.norm1(tokens.rectangle)
    query, key, _ = attn.qkv(x).unflatten(-1, (3, attn.num_heads, -1)).unbind(2)
    scores = torch.zeros(x.shape[1], dtype=torch.float64)
    for head in range(attn.num_heads):
        for row in range(x.shape[1]):
            logits = torch.stack([query[0, row, head] @ key[0, col, head] for col in range(x.shape[1])])
            scores += (logits * attn.head_dim**-0.5).softmax(0)
    return (scores / (attn.num_heads * x.shape[1]))[tokens.layout.prefix :]


@torch.no_grad()
def test_attention_selection_keeps_what_receives_most():
    encoder = tiny_encoder("tap", 0.5, layers=(2,), settings={"selection": "attention"})
    images = tiny_images(encoder, 1)
    kept = encoder(images, return_trace=True).trace.kept_indices(2)[0]
    expected = slow_incoming(encoder, images, 2).topk(len(kept)).indices.sort().values
    assert torch.equal(kept, expected)


@torch.no_grad()
@pytest.mark.parametrize("trunk", [None, VITDET], ids=["plain", "vitdet"])
@pytest.mark.parametrize("selection", [None, "initial", "attention"])
def test_counts_are_exact_and_images_independent(trunk, selection):
    encoder = encoder_with(trunk=trunk, reads=(4,), selection=selection)
    images = tiny_images(encoder, 4)
    together = encoder(images, return_trace=True)
    assert together.final_counts == (8,) * 4
    for number in range(4):
        alone = encoder(images[number : number + 1], return_trace=True)
        for layer in (2, 3):
            assert torch.equal(alone.trace.kept_indices(layer)[0], together.trace.kept_indices(layer)[number])


@torch.no_grad()
def test_the_initial_register_asks_with_its_own_value():
    """At a block where the register has not evolved (the first one), both ask the same."""
    images = None
    kept = {}
    for selection in (None, "initial"):
        encoder = tiny_encoder("tap", 0.5, layers=(1, 3), settings={"selection": selection})
        images = tiny_images(encoder) if images is None else images
        out = encoder(images, return_trace=True)
        kept[selection] = [out.trace.kept_indices(layer) for layer in (1, 3)]
    assert all(map(torch.equal, kept[None][0], kept["initial"][0]))
    assert not all(map(torch.equal, kept[None][1], kept["initial"][1]))


def training_pass(**settings):
    torch.manual_seed(0)
    encoder = encoder_with(reads=(4,), **settings).train()
    output = encoder(tiny_images(encoder))
    terms = encoder.reducer.losses(TrainingPass(encoder, output))
    loss = output.grids[-1].square().mean() + sum(terms.values())
    loss.backward()
    return encoder.reducer, output, terms


def test_hard_selection_gives_the_readout_of_the_budget_no_gradient():
    for estimator, learns in ((None, True), ("hard", False)):
        reducer, output, terms = training_pass(estimator=estimator)
        gradient = reducer.controller.allocation.weight.grad
        assert (gradient is not None and bool(gradient.abs().sum() > 0)) == learns
        assert not terms
        assert output.final_counts == (8,) * 3


def test_independent_gates_have_counts_of_their_own_and_a_penalty_that_learns():
    reducer, output, terms = training_pass(estimator="independent")
    assert set(terms) == {"rate_loss"}
    assert all(1 <= count <= 16 for count in output.final_counts)
    assert reducer.gates.bias.grad.abs().min() > 0
    assert reducer.controller.allocation.weight.grad.abs().sum() > 0


def test_a_gate_is_open_above_one_half_and_one_patch_always_stays():
    gates = IndependentGates((2, 3), 2.0)
    with torch.no_grad():
        gates.bias[1] = -1.0
    scores = torch.tensor([[0.5, 1.5, -3.0, 9.0], [-5.0, -4.0, -6.0, -7.0]])
    valid = torch.tensor([[True, True, True, False], [True, True, True, True]])
    assert gates.keep(gates.logits(2, scores), valid).tolist() == [
        [True, True, False, False],
        [False, True, False, False],
    ]
    assert gates.keep(gates.logits(3, scores), valid).tolist() == [
        [False, True, False, False],
        [False, True, False, False],
    ]


def test_the_penalty_is_the_stated_square():
    gates = IndependentGates((2,), 2.0)
    logits = torch.tensor([[0.3, -1.0, 2.0], [0.1, 0.2, 9.0]])
    valid = torch.tensor([[True, True, True], [True, True, False]])
    target, counts = torch.tensor([1.0, 1.0]), torch.tensor([3, 2])
    first = (torch.sigmoid(logits[0].double() / 0.5).sum() - 2) / 3
    second = (torch.sigmoid(logits[1, :2].double() / 0.5).sum() - 1) / 2
    expected = (first.square() + second.square()) / 2
    assert float(gates.penalty(logits, 0.5, target, counts, valid)) == pytest.approx(float(expected), rel=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("estimator", [None, "hard", "independent"])
def test_keep_rate_one_is_the_dense_model(estimator):
    encoder = encoder_with(1.0, estimator=estimator)
    images = tiny_images(encoder)
    dense = tiny_encoder("dense", 1.0)
    assert torch.equal(encoder.pool(encoder(images)), dense.pool(dense(images)))
