"""Token Cropr against its public implementation, its auxiliary losses, and how pruned patches come back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from public_vit import public_images, reference
from public_weights import CLASSES, WIDTH, draw, encoder_of, plain_vit, vit_shapes
from tiny_models import tiny_encoder, tiny_images

from tap.config.options.cropr import CroprOptions
from tap.core.selection import select
from tap.errors import UserError
from tap.reducers.base import ReducerSettings, TrainingPass
from tap.reducers.cropr import AuxiliaryHead, Scorer
from tap.reducers.registry import get

HEAD = {"mlp_norm": "cross_attn.mlp_norm", "mlp": "cross_attn.mlp", "norm": "head.norm", "head": "head.head"}


def module_shapes(prefix: str = "") -> dict[str, tuple[int, ...]]:
    """Public names and shapes of one module with an MLP and without projections."""
    head = AuxiliaryHead(WIDTH, CLASSES).state_dict()
    shapes = {public_name(prefix, name): tuple(tensor.shape) for name, tensor in head.items()}
    return shapes | {f"{prefix}cross_attn.queries": (1, 1, WIDTH)}


def public_name(prefix: str, name: str) -> str:
    part, rest = name.split(".", 1)
    return f"{prefix}{HEAD[part]}.{rest}"


def module(weights, prefix="", mlp=True):
    scorer, head = Scorer(WIDTH, 1), AuxiliaryHead(WIDTH, CLASSES, mlp)
    scorer.load_state_dict({"queries": weights[f"{prefix}cross_attn.queries"]})
    head.load_state_dict({name: weights[public_name(prefix, name)] for name in head.state_dict()})
    return scorer, head


def test_public_module():
    """Scores and the auxiliary prediction of one stage, and which patches it keeps."""
    truth = reference("cropr")
    scorer, head = module(draw(module_shapes(), 0.05, 7))
    states = truth["x"]
    with torch.no_grad():
        scores = scorer(states.flatten(0, 1)).view(2, -1)[:, 1:]
        prediction = head(scorer, states)[:, 0]
    torch.testing.assert_close(scores, truth["scores"][:, 1:], rtol=0, atol=1e-4)
    torch.testing.assert_close(prediction, truth["prediction"], rtol=0, atol=1e-4)
    kept = select(scores, torch.tensor([42, 42]))
    best = truth["scores"][:, 1:].argsort(dim=1, descending=True)[:, :154]
    assert torch.equal(kept, torch.zeros_like(kept).scatter(1, best, True))


def test_public_model():
    """A module behind each of the first ten blocks (9, 8, 8 ... patches leave), last-layer fusion, mean readout."""
    shapes = vit_shapes()
    shapes |= {f"fc_{name}": shapes.pop(name) for name in ("norm.weight", "norm.bias")}
    for stage in range(10):
        shapes |= module_shapes(f"cropr.{stage}.")
    weights = draw(shapes, 0.05, 11)
    vit = plain_vit()
    norms = {f"norm.{part}": weights[f"fc_norm.{part}"] for part in ("weight", "bias")}
    vit.load_state_dict({name: weights[name] for name in vit.state_dict() if name not in norms} | norms)
    model = encoder_of("cropr", vit, CroprOptions(layers=tuple(range(1, 11))))
    for stage, (scorer, head) in enumerate(zip(model.reducer.scorers, model.reducer.auxiliary, strict=True)):
        one = module(weights, f"cropr.{stage}.")
        scorer.load_state_dict(one[0].state_dict())
        head.load_state_dict(one[1].state_dict())
    model.reducer.schedule = lambda patches: [187 - 8 * stage for stage in range(10)]
    with torch.no_grad():
        output = model(public_images())
        mean = vit.norm(output.tokens.rectangle.mean(dim=1))
    logits = F.linear(mean, weights["head.weight"], weights["head.bias"])
    torch.testing.assert_close(logits, reference("cropr")["logits"], rtol=0, atol=1e-4)
    assert output.final_counts == (115, 115)


@pytest.mark.parametrize(
    ("task", "mlp", "inference", "training"),
    [
        ("cls", True, 2_304, 16_485_816),
        ("cls", False, 2_304, 2_313_912),
        ("seg", True, 2_359_296, 16_881_858),
        ("seg", False, 2_359_296, 2_709_954),
    ],
)
def test_public_sizes(task, mlp, inference, training):
    """Parameters that three stages add to ViT-B: 1000 classes, or 150 classes and 1024 patches."""
    settings = ReducerSettings(
        768,
        12,
        dense=task == "seg",
        num_classes=1000 if task == "cls" else 150,
        patches=1024,
        options=CroprOptions(mlp=mlp),
    )
    reducer = get("cropr")(settings)
    assert reducer.added_parameters() == inference
    assert reducer.added_parameters(training=True) == training


def test_the_variant_with_projections():
    """Scores are those of the projected, normalised tokens; 28762 parameters at the public size."""
    torch.manual_seed(0)
    scorer, head = Scorer(WIDTH, 5, True), AuxiliaryHead(WIDTH, CLASSES, True, 3, True)
    one = Scorer(WIDTH, 1, True)
    assert sum(p.numel() for m in (one, head) for p in m.parameters()) == 28_762
    states = torch.randn(7, WIDTH)
    keys, queries = scorer.k(scorer.norm(states)), scorer.q(scorer.queries[0])
    torch.testing.assert_close(scorer(states), (queries @ keys.T).sum(dim=0), rtol=1e-4, atol=1e-4)
    assert head(scorer, states[None]).shape == (1, 5, CLASSES)


OPTIONS = {"num_classes": 4, "patches": 20, "options": CroprOptions(layers=(1, 2), warmup=0.0)}


def test_auxiliary_losses_do_not_reach_the_encoder():
    model = tiny_encoder("cropr", settings=OPTIONS, grid=(4, 5)).train()
    output = model(tiny_images(model))
    terms = model.reducer.losses(TrainingPass(model, output, targets=torch.tensor([0, 1, 3])))
    assert list(terms) == ["auxiliary_1", "auxiliary_2"]
    sum(terms.values()).backward()
    assert all(parameter.grad.any() for parameter in model.reducer.parameters())
    assert all(parameter.grad is None for parameter in model.vit.parameters())


def test_dense_tasks_have_a_query_for_each_patch_and_skip_void():
    model = tiny_encoder("cropr", settings=OPTIONS, reads=(4,), grid=(4, 5)).train()
    assert model.reducer.scorers[0].queries.shape == (1, 20, 16)
    output = model(tiny_images(model))
    targets = torch.randint(4, (3, 20))
    void = targets.masked_fill(torch.arange(20) % 3 == 0, 255)
    logits = model.reducer.predict(0, output.memory["cropr.seen"][0][1])
    found = model.reducer.losses(TrainingPass(model, output, patch_targets=void))["auxiliary_1"]
    there = void != 255
    torch.testing.assert_close(found, F.cross_entropy(logits[there], void[there]))
    nothing = model.reducer.losses(TrainingPass(model, output, patch_targets=torch.full_like(void, 255)))
    assert nothing["auxiliary_1"].item() == 0.0
    with pytest.raises(UserError, match=r"queries for 20 patches and was given an image of 19"):
        model.reducer.losses(TrainingPass(model, output, patch_targets=targets[:, :19]))


def test_detection_has_a_class_for_the_background():
    model = tiny_encoder("cropr", settings=OPTIONS | {"background": True}, reads=(4,), grid=(4, 5))
    assert model.reducer.auxiliary[0].head.out_features == 5


@pytest.mark.parametrize("fusion", [True, False])
def test_pruned_patches_wait_and_rejoin_before_the_last_block(fusion):
    options = CroprOptions(layers=(1, 2), last_layer_fusion=fusion)
    model = tiny_encoder("cropr", 0.4, settings=OPTIONS | {"options": options}, reads=(1, 2, 3, 4), grid=(4, 5))
    rows = []
    model.vit.blocks[3].register_forward_pre_hook(lambda _module, inputs: rows.append(inputs[0].shape[1]))
    with torch.no_grad():
        output = model(tiny_images(model), return_trace=True)
    assert rows == [21 if fusion else 9]
    assert output.trace.final_counts.tolist() == [8] * 3
    left = ~output.trace.kept[2]
    assert torch.equal(output.grids[1][left], output.grids[2][left])
    assert torch.equal(output.grids[2][left], output.grids[3][left]) != fusion


def test_removals_rise_over_the_first_half_of_a_dense_training():
    model = tiny_encoder("cropr", 0.4, settings=OPTIONS | {"dense": True, "options": CroprOptions(layers=(1, 2))})
    reducer = model.train().reducer
    found = []
    for progress in (0.0, 0.25, 0.5, 1.0):
        reducer.set_progress(progress)
        found.append(reducer.schedule(100))
    assert found == [[100, 100], [82, 70], [63, 40], [63, 40]]
    reducer.set_progress(0.0)
    assert reducer.eval().schedule(100) == [63, 40]


def test_pruning_behind_the_last_block_is_refused():
    with pytest.raises(UserError, match=r"patches that leave after block 4 of 4 spare nothing"):
        tiny_encoder("cropr", settings={"options": CroprOptions(layers=(2, 4))})
