"""DToP: its auxiliary head against the public one, who exits, and with which logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from public_vit import reference
from public_weights import draw
from tiny_models import tiny_encoder, tiny_images

from tap.config.options.dtop import DtopOptions
from tap.errors import UserError
from tap.reducers.base import TrainingPass
from tap.reducers.dtop import class_scores, exits
from tap.reducers.mask_decoder import MaskDecoder, mask_losses

PARTS = {"self_attention": "self_attn", "up": "linear1", "down": "linear2"}
PUBLIC_THRESHOLD = 0.42


def public_name(name: str) -> str:
    """The public head's name of one of `MaskDecoder`'s parameters."""
    if name == "queries":
        return "q.weight"
    if name.startswith("layers."):
        _, layer, part, rest = name.split(".", 3)
        part = "multihead_attn" if part == "cross_attention" else PARTS.get(part, part)
        return f"decoder.layers.{layer}.{part}.{rest}"
    for own, public in (("input_norm", "proj_norm"), ("presence", "class_embed")):
        name = name.replace(own, public)
    return name


@pytest.fixture(scope="module")
def head():
    decoder = MaskDecoder(24, 24, 8, layers=3, heads=6, dropout=0.1).eval()
    names = {name: public_name(name) for name in decoder.state_dict()}
    shapes = {public: decoder.state_dict()[name].shape for name, public in names.items()}
    weights = draw(shapes, 0.3, 3)
    decoder.load_state_dict({name: weights[public] for name, public in names.items()})
    return decoder


def test_public_head(head):
    """Confidence and exits of a first stage (14 and 2 of 64), and of a second one on what is left (12 and 2 more)."""
    truth = reference("dtop")
    with torch.no_grad():
        presence, masks = head(truth["x1"])
        confidence = class_scores(presence, masks).exp()
        first = exits(confidence, torch.tensor(PUBLIC_THRESHOLD), 5)
        left = ~first
        second = exits(class_scores(*head(truth["x2"], left)).exp(), torch.tensor(PUBLIC_THRESHOLD), 5, left)
    torch.testing.assert_close(presence, truth["presence"], rtol=0, atol=1e-4)
    torch.testing.assert_close(masks, truth["masks"], rtol=0, atol=1e-4)
    torch.testing.assert_close(confidence, truth["confidence"], rtol=0, atol=1e-4)
    assert torch.equal(first, truth["left"])
    assert first.sum(dim=1).tolist() == [14, 2]
    assert (first | second).sum(dim=1).tolist() == [26, 4]


def test_the_public_head_of_a_base_model_has_the_measured_size():
    head = MaskDecoder(768, 384, 150, layers=3, heads=6, dropout=0.1)
    assert sum(parameter.numel() for parameter in head.parameters()) == 7_454_210


def test_padding_is_not_there(head):
    """A head sees the same with and without padded positions."""
    patches = torch.randn(2, 9, 24)
    valid = torch.arange(9) < torch.tensor([[9], [5]])
    with torch.no_grad():
        presence, masks = head(patches, valid)
        alone = head(patches[1:, :5])
    torch.testing.assert_close(presence[1:], alone[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(masks[1:, :, :5], alone[1], rtol=1e-5, atol=1e-5)


def slow_exits(confidence, threshold, kept_per_class, valid):
    """By the words of the paper, image by image and class by class."""
    found = torch.zeros(confidence.shape[0], confidence.shape[2], dtype=torch.bool)
    for image, table in enumerate(confidence.tolist()):
        columns = list(zip(*table, strict=True))
        for label in range(len(table)):
            certain = [
                (-max(column), place)
                for place, column in enumerate(columns)
                if valid[image, place] and max(column) > threshold and column.index(max(column)) == label
            ]
            for _, place in sorted(certain)[kept_per_class:]:
                found[image, place] = True
    return found


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    size=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 12)),
    kept=st.integers(1, 4),
    steps=st.integers(2, 8),
)
def test_exits_by_loops(seed, size, kept, steps):
    """Few different values, so that many are equal."""
    generator = torch.Generator().manual_seed(seed)
    confidence = torch.randint(steps, size, generator=generator) / steps
    valid = torch.rand(size[0], size[2], generator=generator) < 0.8
    found = exits(confidence, torch.tensor(0.5), kept, valid)
    assert torch.equal(found, slow_exits(confidence, 0.5, kept, valid))


def slow_mask_losses(presence, masks, targets):
    """The three losses with plain loops in float64."""
    presence, masks = presence.double(), masks.double()
    weighted, weights, focal, dice, pairs = 0.0, 0.0, 0.0, 0.0, 0
    for image in range(len(presence)):
        for label in range(presence.shape[1]):
            truth = [float(int(target) == label) for target in targets[image]]
            there = any(truth)
            weight = 1.0 if there else 0.1
            weighted -= weight * float(presence[image, label].log_softmax(dim=0)[0 if there else 1])
            weights += weight
            if not there:
                continue
            pairs += 1
            share = [float(torch.sigmoid(value)) for value in masks[image, label]]
            for p, t in zip(share, truth, strict=True):
                right = p if t else 1 - p
                alpha = 0.25 if t else 0.75
                focal -= alpha * (1 - right) ** 2 * float(torch.log(torch.tensor(right).double())) / len(truth)
            overlap = sum(p * t for p, t in zip(share, truth, strict=True))
            dice += 1 - (2 * overlap + 1) / (sum(share) + sum(truth) + 1)
    return weighted / weights, focal / max(pairs, 1), dice / max(pairs, 1)


@pytest.mark.parametrize("void", [0.0, 0.4, 1.0])
def test_mask_losses_by_loops(void):
    generator = torch.Generator().manual_seed(1)
    presence, masks = (torch.randn(2, 4, last, generator=generator) for last in (2, 6))
    targets = torch.randint(3, (2, 6), generator=generator)
    targets = targets.masked_fill(torch.rand(2, 6, generator=generator) < void, 255)
    found = [float(loss) for loss in mask_losses(presence, masks, targets)]
    assert found == pytest.approx(slow_mask_losses(presence, masks, targets), abs=1e-5)


def tiny(threshold: float = 0.35, **options: Any):
    given = DtopOptions(layers=(2, 3), channels=8, heads=2, kept_per_class=2, threshold=threshold, **options)
    return tiny_encoder(
        "dtop", 0.4, settings={"num_classes": 3, "task": "seg", "options": given}, reads=(1, 2, 3, 4), grid=(4, 5)
    )


def test_exits_keep_their_logits_and_their_state():
    model = tiny()
    images = tiny_images(model, 4)
    with torch.no_grad():
        output = model(images, return_trace=True)
        logits = model.reducer.dense_logits(torch.randn(4, 3, 4, 5), output)
    assert len(set(output.trace.removed[2].tolist())) > 1
    gone = ~output.trace.kept[2]
    assert torch.equal(output.grids[1][gone], output.grids[3][gone])
    shares = logits.exp().sum(dim=1)
    torch.testing.assert_close(shares, torch.ones_like(shares), rtol=1e-5, atol=1e-5)
    with torch.no_grad():  # the head that let them go, on the states that it saw
        scores = class_scores(*model.reducer.heads[0](output.grids[1]))
    exit_shares = (scores - scores.logsumexp(dim=1, keepdim=True)).transpose(1, 2)
    found = logits.flatten(2).transpose(1, 2)
    torch.testing.assert_close(found[gone], exit_shares[gone], rtol=1e-4, atol=1e-4)


def test_a_higher_threshold_leaves_more_patches():
    counts = [sum(tiny(threshold)(tiny_images(tiny(), 4)).final_counts) for threshold in (0.0, 0.3, 0.35, 0.4, 1.0)]
    assert counts == sorted(counts)
    assert counts[-1] == 80
    assert counts[0] < counts[2] < counts[-1]


def test_training_first_without_exits():
    """Both phases have the losses of both heads, over all positions."""
    model = tiny(pruned_from=0.5).train()
    images, targets = tiny_images(model), torch.randint(3, (3, 20))
    for progress, complete in ((0.2, True), (0.7, False)):
        model.reducer.set_progress(progress)
        torch.manual_seed(0)
        output = model(images)
        assert (output.final_counts == (20, 20, 20)) == complete
        terms = model.reducer.losses(TrainingPass(model, output, patch_targets=targets))
        assert sorted(terms) == ["dice_2", "dice_3", "mask_2", "mask_3", "presence_2", "presence_3"]
        presence, masks = output.memory["dtop.answers"][1]
        assert masks.shape == (3, 3, 20)
        assert terms["mask_3"].item() == pytest.approx(20 * mask_losses(presence, masks, targets)[1].item(), rel=1e-5)


def test_logits_pass_where_nobody_left():
    model = tiny(threshold=1.0)
    output = model(tiny_images(model))
    logits = torch.randn(3, 3, 4, 5)
    assert model.reducer.dense_logits(logits, output) is logits


def test_settings_that_do_not_fit_are_refused():
    for options, message in (
        (DtopOptions(layers=(2, 4)), r"must be increasing and end before block 4"),
        (DtopOptions(layers=(1, 2), heads=3), r"8 channels are not a multiple of 3 heads"),
    ):
        with pytest.raises(UserError, match=message):
            tiny_encoder("dtop", settings={"options": options})
