"""Evo-ViT against its public implementation, and what fast patches do."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from public_vit import public_images, reference
from public_weights import CLASSES, WIDTH, draw, encoder_of, plain_vit
from tiny_models import tiny_encoder, tiny_images

from tap.config.options.evovit import EvoVitOptions
from tap.errors import UserError
from tap.reducers.base import TrainingPass

LAYERWISE = EvoVitOptions(chosen_again=tuple(range(6, 13)))


def public_names() -> dict[str, str]:
    """Public name of every parameter by timm's; queries and keys are apart from values in public code."""
    names = {}
    for name in plain_vit().state_dict():
        parts = name.split(".")
        if parts[0] != "blocks" or parts[2] in ("norm2", "mlp"):
            names[name] = name
        elif parts[2] == "norm1":
            names[name] = f"norms.{parts[1]}.{parts[3]}"
        elif parts[3] == "proj":
            names[name] = f"projs.{parts[1]}.{parts[4]}"
    return names


def public_weights() -> dict[str, torch.Tensor]:
    own = {name: tuple(tensor.shape) for name, tensor in plain_vit().state_dict().items()}
    shapes = {public: own[name] for name, public in public_names().items()}
    for block in range(12):
        shapes |= {f"qks.{block}.qk.weight": (2 * WIDTH, WIDTH), f"qks.{block}.qk.bias": (2 * WIDTH,)}
        shapes |= {f"vs.{block}.v.weight": (WIDTH, WIDTH), f"vs.{block}.v.bias": (WIDTH,)}
    for head in ("head", "head_cls"):
        shapes |= {f"{head}.weight": (CLASSES, WIDTH), f"{head}.bias": (CLASSES,)}
    return draw(shapes | {"norm_cls.weight": (WIDTH,), "norm_cls.bias": (WIDTH,)}, 0.05, 11)


@pytest.fixture(scope="module")
def weights():
    return public_weights()


def public_model(weights, options):
    vit = plain_vit()
    tensors = {name: weights[public] for name, public in public_names().items()}
    for block in range(12):
        for part in ("weight", "bias"):
            fused = torch.cat([weights[f"qks.{block}.qk.{part}"], weights[f"vs.{block}.v.{part}"]])
            tensors[f"blocks.{block}.attn.qkv.{part}"] = fused
    vit.load_state_dict(tensors)
    model = encoder_of("evovit", vit, options)
    names = {"norm.": "norm_cls.", "head.": "head_cls."}
    second = {
        f"{own}{part}": weights[f"{public}{part}"] for own, public in names.items() for part in ("weight", "bias")
    }
    model.reducer.class_head.load_state_dict(second)
    return model


@pytest.mark.parametrize(("options", "name"), [(EvoVitOptions(), "logits"), (LAYERWISE, "layerwise_logits")])
def test_public_inference(weights, options, name):
    """Stage by stage, and with a new choice at every block."""
    model, images = public_model(weights, options), public_images()
    with torch.no_grad():
        output = model(images, return_trace=True)
        logits = F.linear(model.pool(output), weights["head.weight"], weights["head.bias"])
    torch.testing.assert_close(logits, reference("evovit")[name], rtol=0, atol=1e-4)
    assert output.trace.final_counts.tolist() == [98, 98]


def test_public_training(weights):
    """The two heads; without drop path the forward is that of inference."""
    model, images, truth = public_model(weights, EvoVitOptions()).train(), public_images(), reference("evovit")
    targets = torch.tensor([3, 7])
    with torch.no_grad():
        output = model(images)
        logits = F.linear(model.pool(output), weights["head.weight"], weights["head.bias"])
        term = model.reducer.losses(TrainingPass(model, output, logits, targets))["class_head"]
    torch.testing.assert_close(logits, truth["train_mean_logits"], rtol=0, atol=1e-4)
    assert float(term) == pytest.approx(0.5 * float(F.cross_entropy(truth["train_class_logits"], targets)), abs=1e-4)
    assert model.reducer.task_weight == 0.5


def test_nothing_is_added_at_inference():
    reducer = tiny_encoder("evovit", settings=OPTIONS).reducer
    assert reducer.added_parameters() == 0
    assert reducer.added_parameters(training=True) == 2 * 16 + 16 * 4 + 4


OPTIONS = {"num_classes": 4, "options": EvoVitOptions(first_block=2, chosen_again=(4,))}


def test_a_fast_patch_waits_unchanged_and_may_come_back():
    model = tiny_encoder("evovit", 0.4, settings=OPTIONS, reads=(1, 2, 3, 4), grid=(4, 5))
    images = tiny_images(model, 4)
    with torch.no_grad():
        output = model(images, return_trace=True)
    first, second = output.trace.kept[2], output.trace.kept[4]
    assert (second & ~first).any(), "no patch came back"
    for layer, (before, after) in enumerate(pairwise(output.grids), start=2):
        slow = first if layer < 4 else second
        assert torch.equal(before[~slow], after[~slow])
        assert (before[slow] != after[slow]).any(dim=1).all()


def test_the_readout():
    """The mean of all patches, or the class token."""
    for readout in ("mean", "class"):
        options = EvoVitOptions(first_block=2, chosen_again=(4,), readout=readout)
        model = tiny_encoder("evovit", 0.4, settings={"options": options}, grid=(3, 4))
        output = model(tiny_images(model))
        states = output.tokens.rectangle
        states = states[:, 0] if readout == "class" else states[:, 1:].mean(dim=1)
        assert output.tokens.layout.width == 12
        torch.testing.assert_close(model.pool(output), model.vit.norm(states))


def test_blocks_that_are_not_there_are_refused():
    with pytest.raises(UserError, match=r"options\.evovit: chooses at block 9 of a model with 4 blocks"):
        tiny_encoder("evovit", settings={"options": None})
