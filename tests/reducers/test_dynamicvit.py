"""DynamicViT against its public implementation, and its training."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from public_vit import logits, public_encoder, public_images, reference
from public_weights import CLASSES, WIDTH, draw, vit_shapes
from tiny_models import tiny_encoder, tiny_images

from tap.config.options.dynamicvit import DynamicVitOptions
from tap.reducers.base import TeacherOutput, TrainingPass
from tap.reducers.dynamicvit import Predictor

NAMES = {"in_conv": "into", "out_conv": "out"}


def public_predictors() -> dict[str, torch.Tensor]:
    """The public predictors' weights by this project's names."""
    template = Predictor(WIDTH).state_dict()
    public = {
        f"score_predictor.{stage}.{name.replace('into', 'in_conv').replace('out', 'out_conv')}": tensor.shape
        for stage in range(3)
        for name, tensor in template.items()
    }
    # Layer norms count by position in the public model's sequence, so their gains are drawn around 0 like the rest.
    weights = draw(vit_shapes() | public, 0.05, 11)
    found = {}
    for name in public:
        _, stage, part, rest = name.split(".", 3)
        found[f"predictors.{stage}.{NAMES[part]}.{rest}"] = weights[name]
    return found


@pytest.fixture
def public():
    model = public_encoder("dynamicvit")
    model.reducer.load_state_dict(public_predictors())
    return model


def test_public_inference(public):
    """Logits, predictions of all stages and counts 155, 123, 98."""
    said = []
    for predictor in public.reducer.predictors:
        predictor.register_forward_hook(lambda _module, _inputs, out: said.append(out))
    with torch.no_grad():
        output = public(public_images(), return_trace=True)
    truth = reference("dynamicvit")
    torch.testing.assert_close(logits(public, output), truth["logits"], rtol=0, atol=1e-4)
    before = torch.ones(2, 196, dtype=torch.bool)
    for stage, (layer, count) in enumerate(((3, 155), (6, 123), (9, 98))):
        # The public code leaves the patches in order of decreasing score, equal ones in any order: compared by score.
        public_scores = truth[f"log_probabilities{stage}"].sort(dim=1, descending=True).values
        torch.testing.assert_close(said[stage].sort(dim=1, descending=True).values, public_scores, rtol=0, atol=1e-4)
        kept = output.trace.kept[layer]
        scores = said[stage][..., 0][kept[before].view(2, -1)].view(2, count)
        torch.testing.assert_close(scores.sort(dim=1, descending=True).values, public_scores[:, :count, 0])
        before = kept


@pytest.mark.parametrize("token_loss", ["mse", "kl"])
def test_public_training(public, token_loss):
    """A training forward with the recorded decisions, and every term of the loss; the teacher has the same weights."""
    truth = reference("dynamicvit")
    dense, images = public_encoder("dense"), public_images()
    model = public_encoder("dynamicvit", DynamicVitOptions(token_loss=token_loss)).train()
    model.reducer.load_state_dict(public.reducer.state_dict())
    decisions = iter(truth[f"kept{stage}"].float() for stage in range(3))
    model.reducer.decide = lambda log_probabilities, before: next(decisions)
    with torch.no_grad():
        known = dense(images)
        teacher = TeacherOutput(logits(dense, known), dense.vit.norm(known.tokens.rectangle)[:, 1:])
        output = model(images)
        said = logits(model, output)
        terms = model.reducer.losses(TrainingPass(model, output, said, teacher=teacher))
    torch.testing.assert_close(said, truth["train_logits"], rtol=0, atol=1e-4)
    total, task, ratio, divergence, tokens = truth[f"loss_{token_loss}"].tolist()
    assert float(terms["ratio"]) == pytest.approx(2 * ratio / 3, abs=1e-5)
    assert float(terms["teacher_logits"]) == pytest.approx(0.5 * divergence, abs=1e-6)
    assert float(terms["teacher_tokens"]) == pytest.approx(0.5 * tokens, abs=1e-6)
    assert task + float(sum(terms.values())) == pytest.approx(total, abs=1e-4)


def test_the_predictors_of_a_base_model_have_the_measured_size():
    assert sum(parameter.numel() for parameter in Predictor(768).parameters()) == 961_730


def test_what_is_dropped_stays_dropped_and_learns():
    model = tiny_encoder("dynamicvit", 0.4, (2, 3, 4), settings={"num_classes": CLASSES}, grid=(4, 5)).train()
    torch.manual_seed(3)
    output = model(tiny_images(model))
    decisions = output.memory["dynamicvit.decisions"]
    assert [sorted(set(kept.flatten().tolist())) for kept in decisions] == [[0.0, 1.0]] * 3
    assert all((later <= earlier).all() for earlier, later in pairwise(decisions))
    model.reducer.losses(TrainingPass(model, output))["ratio"].backward()
    assert all(predictor.into[1].weight.grad.any() for predictor in model.reducer.predictors)


def test_a_dropped_patch_is_seen_by_no_other():
    """Another state of it changes nothing elsewhere, up to what the stabiliser spreads over all rows."""
    model = tiny_encoder("dynamicvit", 0.5, (2,), grid=(2, 3)).train().double()
    kept = torch.tensor([[1.0, 0.0, 1.0, 1.0, 0.0, 1.0]], dtype=torch.float64)
    model.reducer.decide = lambda log_probabilities, before: kept
    images, bump, ends = tiny_images(model, 1), torch.zeros(1, 7, 16, dtype=torch.float64), []
    model.vit.blocks[0].register_forward_hook(lambda _module, _inputs, out: out + bump)
    with torch.no_grad():
        for size in (0.0, 5.0):
            bump[0, 2] = size  # the second patch, which is dropped
            ends.append(model(images).tokens.rectangle)
    others = [0, 1, 3, 4, 5, 6]
    torch.testing.assert_close(ends[0][:, others], ends[1][:, others], rtol=1e-4, atol=1e-4)
    assert (ends[0][:, 2] - ends[1][:, 2]).abs().max() > 1


def test_learning_rates_have_two_phases():
    reducer = tiny_encoder("dynamicvit").reducer
    rates = []
    for progress in (0.0, 0.1, 0.2, 1.0):
        reducer.set_progress(progress)
        rates.append((reducer.rates().reducer, reducer.rates().backbone, reducer.rates().head))
    assert rates == [(1.0, 0.0, 0.0)] * 2 + [(1.0, 0.01, 0.01)] * 2
