"""SViT against its public implementation, and what gates do."""

from __future__ import annotations

import pytest
import torch
from public_vit import public_images, reference
from public_weights import CLASSES, WIDTH, draw, encoder_of, plain_vit, vit_shapes
from tiny_models import tiny_encoder, tiny_images

from tap.config.options.svit import SvitOptions
from tap.errors import UserError
from tap.reducers.base import TrainingPass
from tap.reducers.svit import Gate, at_least_one

BLOCK = "TransformerEncoderLayer."
PARTS = {
    "attn.qkv.": "self_attn.in_proj_",
    "attn.proj.": "self_attn.out_proj.",
    "mlp.fc1.": "linear1.",
    "mlp.fc2.": "linear2.",
}


def public_name(name: str) -> str:
    if name.startswith("blocks."):
        _, block, rest = name.split(".", 2)
        for own, public in PARTS.items():
            rest = rest.replace(own, public)
        return f"blocks.{block}.{BLOCK}{rest}"
    return name


@pytest.fixture(scope="module")
def weights():
    gate = {name: tuple(tensor.shape) for name, tensor in Gate(WIDTH).state_dict().items()}
    shapes = {public_name(name): shape for name, shape in vit_shapes().items()}
    for stage in range(3):
        shapes |= {f"selective_modules.{stage}.{name}": shape for name, shape in gate.items()}
    return draw(shapes, 0.08, 11)


def test_public_gate():
    gate, truth = Gate(WIDTH), reference("svit")
    gate.load_state_dict(draw({name: tensor.shape for name, tensor in gate.state_dict().items()}, 0.4, 3))
    with torch.no_grad():
        found = gate(truth["x"])
    torch.testing.assert_close(found, truth["log_probabilities"], rtol=0, atol=1e-4)
    assert torch.equal(found[..., 0].exp() > 0.5, truth["through"])


def test_public_model(weights):
    """Gates before blocks 3, 6 and 9: how many tokens pass each, and the ratio loss (its ratios are .8, .65, .5)."""
    vit = plain_vit(heads=4)
    vit.load_state_dict({name: weights[public_name(name)] for name in vit.state_dict()})
    model = encoder_of("svit", vit, SvitOptions(layers=(3, 6, 9), ratios=(0.8, 0.65, 0.5), ratio_weight=1.0))
    for stage, gate in enumerate(model.reducer.gates):
        gate.load_state_dict({name: weights[f"selective_modules.{stage}.{name}"] for name in gate.state_dict()})
    with torch.no_grad():
        output = model(public_images(), return_trace=True)
    truth = reference("svit")
    through = output.trace.kept
    found = [[count + 1 for count in through[layer].sum(dim=1).tolist()] for layer in (3, 6, 9)]  # and the class token
    assert found == truth["vit_kept"].tolist()
    output.memory["svit.chosen"] = {layer: chosen.float() for layer, chosen in through.items()}
    loss = model.reducer.losses(TrainingPass(model, output))["ratio"]
    torch.testing.assert_close(loss, truth["ratio_loss"], rtol=0, atol=1e-4)


def test_a_gate_of_a_base_model_has_the_measured_size():
    assert sum(parameter.numel() for parameter in Gate(768).parameters()) == 149_570


def tiny(rate: float = 0.4, **options):
    given = SvitOptions(layers=options.pop("layers", (2, 3, 4)), **options)
    return tiny_encoder(
        "svit", rate, settings={"num_classes": CLASSES, "options": given}, reads=(1, 2, 3, 4), grid=(4, 5)
    )


def test_tokens_that_go_past_keep_their_state_and_may_return():
    model = tiny()
    with torch.no_grad():
        output = model(tiny_images(model, 4), return_trace=True)
    kept = output.trace.kept
    assert (kept[3] & ~kept[2]).any(), "no token returned"
    for layer in (2, 3, 4):
        before, after = output.grids[layer - 2], output.grids[layer - 1]
        assert torch.equal(before[~kept[layer]], after[~kept[layer]])
        assert (before[kept[layer]] != after[kept[layer]]).any(dim=1).all()
    assert output.final_counts == tuple(kept[4].sum(dim=1).tolist())
    assert len(set(output.final_counts)) > 1


@pytest.mark.parametrize("trunk", [{}, {"window": 2, "global_blocks": (2, 4), "class_token": False}])
def test_training_hides_the_others_and_mixes_by_the_gate(monkeypatch, trunk):
    """With the choices of inference, training gives the states of inference: within windows, with relative position."""
    options = SvitOptions(layers=(2, 3, 4))
    model = tiny_encoder("svit", 0.4, settings={"options": options}, grid=(4, 5), **trunk)
    images = tiny_images(model)
    with torch.no_grad():
        expected_states = model(images, return_trace=True)
        choices = iter(expected_states.trace.kept[layer].float() for layer in (2, 3, 4))

        def recorded(logits, tau, hard):
            chosen = next(choices)
            return torch.stack([chosen, 1 - chosen], dim=-1)

        monkeypatch.setattr(torch.nn.functional, "gumbel_softmax", recorded)
        found = model.train()(images)
    torch.testing.assert_close(found.tokens.x, expected_states.tokens.x, rtol=1e-5, atol=1e-5)


def test_every_gate_learns_from_the_task_and_from_its_ratio():
    model = tiny().train()
    torch.manual_seed(2)
    output = model(tiny_images(model))
    for loss in (output.grids[-1].square().mean(), model.reducer.losses(TrainingPass(model, output))["ratio"]):
        model.zero_grad()
        loss.backward(retain_graph=True)
        assert all(gate.mlp.fc1.weight.grad.any() for gate in model.reducer.gates)


def test_ratios_fall_in_thirds():
    reducer = tiny(0.343, layers=(1, 2, 3, 4)).reducer
    assert [reducer.ratio(layer) for layer in (1, 2, 3, 4)] == pytest.approx([0.7, 0.7, 0.49, 0.343])
    twelve = tiny_encoder("svit", 0.343, depth=12, settings={"options": None}).reducer
    assert twelve.gated == tuple(range(4, 13))
    expected_ratios = [0.7] * 3 + [0.49] * 3 + [0.343] * 3
    assert [twelve.ratio(layer) for layer in twelve.gated] == pytest.approx(expected_ratios)


def test_a_higher_threshold_lets_more_through():
    model, counts = tiny(), []
    for threshold in (0.0, 0.3, 0.5, 0.7, 1.0):
        model.reducer.threshold.fill_(threshold)
        counts.append(sum(model(tiny_images(model)).final_counts))
    assert counts[0] == 3, "one token of each image goes through whatever its gate says"
    assert counts[-1] == 60
    assert len(set(counts)) > 2


def test_at_least_one():
    through = torch.tensor([[False, True, False], [False, False, False], [False, False, False]])
    probability = torch.tensor([[0.9, 0.1, 0.2], [0.1, 0.3, 0.3], [0.0, 0.0, 0.0]])
    expected_choice = [[False, True, False], [False, True, False], [True, False, False]]
    assert at_least_one(through, probability).tolist() == expected_choice


@pytest.mark.parametrize("layers", [(3, 2), (4, 5)])
def test_gates_at_blocks_that_are_not_there_are_refused(layers):
    with pytest.raises(UserError, match=r"options\.svit\.layers"):
        tiny(layers=layers)
